"""What others put into a model decides: hooks that look at a forward, layers and attention not transformers' own."""

from typing import Any

import pytest
import torch
import transformers
from rag_tiny import QUESTION, byte_llama, byte_tokenizer
from tiny import llama, prompt
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaAttention

from lookahead.plugins import hf, rag
from lookahead.plugins.hf_arguments import cache_name
from lookahead.plugins.hf_parts import foreign_parts
from lookahead.plugins.hf_trust import packs_rows, reads_trees

FIXED = {"draft_per_match": 4}


def generate(model: Any, ids: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
    ids = prompt() if ids is None else ids
    settings = {"max_new_tokens": 30, "eos_token_id": None, "pad_token_id": 0, **options}
    return model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **settings)


def steered() -> Any:
    """A model whose first layer adds a vector to the last token of every forward."""
    model, vector = llama(), torch.randn(32, generator=torch.Generator().manual_seed(0))

    def steer(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        return torch.cat([output[:, :-1], output[:, -1:] + vector], dim=1)

    model.model.layers[0].register_forward_hook(steer)
    return model


def test_a_hook_that_looks_at_the_last_token_sees_single_tokens() -> None:
    model = hf.enable(steered(), lookup=FIXED)
    assert torch.equal(generate(model), generate(steered()))
    assert "pass lookup=True" in hf.stats(model).plain_reason


def test_a_call_that_asks_for_drafts_has_them_in_spite_of_hooks() -> None:
    model, widths = hf.enable(llama()), []
    model.model.norm.register_forward_hook(lambda module, args, output: widths.append(output.shape[1]))
    assert torch.equal(generate(model, lookup=FIXED), generate(llama()))
    assert hf.stats(model).draft_tokens > 0
    assert max(widths[1:]) > 1


def test_passages_outside_the_prompt_ask_for_nothing() -> None:
    """The references of an answer are lookup options, but not such as the user gave."""
    model, tokenizer = byte_llama(context=200), byte_tokenizer()
    model.model.norm.register_forward_hook(lambda module, args, output: None)
    answer = rag.answer(model, tokenizer, QUESTION, ["A passage. " * 40], max_new_tokens=4)
    assert not answer.passages_in_prompt
    assert "forward hooks" in answer.stats.plain_reason


class Watching(torch.nn.Module):
    """A module that hooks itself, as quantized layers of optimum-quanto do."""

    def __init__(self, inner: torch.nn.Linear) -> None:
        super().__init__()
        self.inner = inner
        self.register_forward_pre_hook(self.watch)

    def watch(self, module: Any, args: Any) -> None:
        """Look on."""

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.inner(states)


def test_hooks_of_transformers_and_of_a_module_itself_change_nothing() -> None:
    model = hf.enable(llama(), lookup=FIXED)
    model.enable_input_require_grads()
    model(prompt(), output_hidden_states=True)  # installs recorders for good
    model.lm_head = Watching(model.lm_head)
    generate(model)
    assert hf.stats(model).draft_tokens > 0


def adapted(**options: Any) -> Any:
    peft = pytest.importorskip("peft")
    torch.manual_seed(3)
    settings = {"r": 2, "target_modules": ["q_proj", "down_proj"], "task_type": "CAUSAL_LM", **options}
    model = peft.get_peft_model(llama(), peft.LoraConfig(init_lora_weights=False, **settings), adapter_name="one")
    model.add_adapter("two", peft.LoraConfig(init_lora_weights=False, **settings))
    return model.eval()


def test_rows_with_adapters_of_their_own_are_decoded_plainly() -> None:
    model, ids = adapted(), torch.cat([prompt(seed=seed) for seed in range(3)])
    options = {"adapter_names": ["one", "two", "__base__"], "eos_token_id": [1, 3, 39]}
    plain = generate(model, ids, **options)
    hf.enable(model)
    for lookup in (None, True):
        assert torch.equal(generate(model, ids, lookup=lookup, **options), plain)
        assert "adapter" in hf.stats(model).plain_reason


def test_an_adapter_that_begins_at_its_invocation_is_decoded_plainly() -> None:
    model = adapted(alora_invocation_tokens=prompt()[0, -2:].tolist())
    plain = generate(model)
    hf.enable(model)
    for lookup in (None, FIXED):
        assert torch.equal(generate(model, lookup=lookup), plain)
        assert "adapter" in hf.stats(model).plain_reason


def quantized() -> Any:
    """The scale of the activations is that of all tokens of a forward."""
    return torch.ao.quantization.quantize_dynamic(llama(), {torch.nn.Linear}, dtype=torch.qint8)


def test_kernels_that_depend_on_the_whole_block_are_found_by_measuring() -> None:
    model = hf.enable(quantized(), lookup=FIXED)
    assert torch.equal(generate(model), generate(quantized()))
    assert "is not exact" in hf.stats(model).plain_reason


def test_a_model_is_measured_anew_when_its_parts_have_changed() -> None:
    model = hf.enable(llama(), lookup=FIXED)
    generate(model)
    assert not hf.stats(model).plain_reason
    model.lm_head = quantized().lm_head
    generate(model)
    assert "is not exact" in hf.stats(model).plain_reason


def test_registered_attention_is_measured() -> None:
    def leaky(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        output, weights = sdpa_attention_forward(module, query, key, value, mask, **options)
        return output + output.mean(dim=1, keepdim=True), weights

    AttentionInterface.register("leaky", leaky)
    AttentionInterface.register("same", lambda *args, **options: sdpa_attention_forward(*args, **options))
    for name, is_plain in (("leaky", True), ("same", False)):
        AttentionMaskInterface.register(name, sdpa_mask)
        model = hf.enable(llama(), lookup=FIXED)
        model.set_attn_implementation(name)
        generate(model)
        assert bool(hf.stats(model).plain_reason) == is_plain


def test_nothing_is_foreign_in_models_of_transformers(monkeypatch) -> None:
    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, "sdpa", sdpa_attention_forward)  # as before the first enabled model
    assert not foreign_parts(llama())
    assert not foreign_parts(hf.enable(llama()))
    assert not foreign_parts(torch.compile(llama(), backend="eager"))
    assert foreign_parts(adapted().get_base_model())
    own = type("Own", (transformers.LlamaForCausalLM,), {"__module__": "mine"})
    assert foreign_parts(own(llama().config)) == {"mine.Own"}


def test_adapters_that_are_exact_are_drafted_for() -> None:
    model = adapted()
    plain = generate(model)
    hf.enable(model, lookup=FIXED)
    assert torch.equal(generate(model), plain)
    assert hf.stats(model).draft_tokens > 0


class Near(LlamaAttention):
    """Attention of one's own that prefers what stands near in the cache, and knows nothing of trees and packed rows."""

    def forward(self, hidden_states: Any, attention_mask: Any = None, **kwargs: Any) -> Any:
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        parts = [part(hidden_states).view(shape).transpose(1, 2) for part in (self.q_proj, self.k_proj, self.v_proj)]
        query, key, value = parts
        key, value = kwargs[cache_name(kwargs)].update(key, value, self.layer_idx)
        key, value = (part.repeat_interleave(self.num_key_value_groups, dim=1) for part in (key, value))
        read, held = query.shape[2], key.shape[2]
        far = torch.arange(held - read, held)[:, None] - torch.arange(held)
        scores = query @ key.transpose(2, 3) * self.scaling - 0.3 * far.clamp(min=0)
        scores = scores.masked_fill(far < 0, -torch.inf)
        if attention_mask is not None:
            scores = scores.masked_fill(~attention_mask, -torch.inf)
        return self.o_proj((scores.softmax(-1) @ value).transpose(1, 2).flatten(2)), None


def test_attention_of_ones_own_reads_chains_and_padded_rows() -> None:
    """It is trusted with what it was measured to read exactly, whatever the architecture is known for."""
    model = llama()
    for place, layer in enumerate(model.model.layers):
        own = Near(model.config, place).eval()
        own.load_state_dict(layer.self_attn.state_dict())
        layer.self_attn = own
    hf.enable(model)
    cache = DynamicCache(config=model.config)
    assert not reads_trees(model, cache)
    assert not packs_rows(model, cache)
    for ids in (prompt(), torch.cat([prompt(seed=seed) for seed in range(3)])):
        assert torch.equal(generate(model, ids, lookup=FIXED), generate(model, ids, lookup=False))
        generate(model, ids, lookup=FIXED)
        assert hf.stats(model).draft_tokens > 0
        assert not hf.stats(model).plain_reason


def test_adapters_keep_trees_and_packed_rows() -> None:
    model = adapted().get_base_model()
    cache = DynamicCache(config=model.config)
    assert reads_trees(model, cache)
    assert packs_rows(model, cache)
