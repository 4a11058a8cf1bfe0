"""Every architecture that transformers lists for text, built small: hidden 32, a layer of each kind, vocabulary 64.

The list is the auto-model mapping of the installed version, so an architecture is tried the day it appears. Sizes
follow from the names of a configuration's fields; what needs more than a size stands in ``SPECIAL``.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import transformers
from tiny import VOCABULARY
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

LARGEST = 8_000_000
"""Parameters from which on a model counts as not small."""


def _each(names: str, value: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split(), value)


def _rope(kind: str, **settings: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, **settings}}


SMALL: dict[str, Any] = {
    **_each("vocab_size vocab_size_per_layer_input decoder_vocab_size output_vocab_size", VOCABULARY),
    **_each("tgt_vocab_size src_vocab_size unpadded_vocab_size encoder_hash_byte_group_vocab", VOCABULARY),
    **_each("pronunciation_vocab_size shape_vocab_size", VOCABULARY),
    **_each("hidden_size d_model n_embd embedding_size word_embed_proj_dim emb_dim", 32),
    **_each("intermediate_size ffn_dim decoder_ffn_dim encoder_ffn_dim n_inner d_ff dim_ff dff d_inner", 48),
    **_each("moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size", 16),
    **_each("dense_intermediate_size intermediate_size_mlp expert_ffn_hidden_size ffn_hidden_size", 16),
    **_each("shared_experts_intermediate_size moe_shared_expert_intermediate_size", 16),
    **_each("num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers num_decoder_layers", 2),
    **_each("num_attention_heads n_head n_heads decoder_attention_heads encoder_attention_heads num_heads", 4),
    **_each("swa_num_attention_heads depth", 4),
    **_each("num_key_value_heads swa_num_key_value_heads num_kv_heads", 2),
    **_each("head_dim swa_head_dim v_head_dim kv_channels dim_head mamba_head_dim mamba_d_head", 8),
    **_each("linear_key_head_dim linear_value_head_dim linear_head_dim rotary_dim d_kv hidden_size_per_layer_input", 8),
    **_each("max_position_embeddings n_positions n_ctx max_seq_len", 512),
    **_each("num_experts n_routed_experts num_local_experts moe_num_experts", 4),
    **_each("num_experts_per_tok moe_k moe_topk top_k_experts", 2),
    **_each("n_group topk_group n_shared_experts num_shared_experts first_k_dense_replace num_dense_layers", 1),
    **_each("sliding_window sliding_window_size window_size local_attention attention_chunk_size", 12),
    **_each("keep_window_size attention_window_size", 12),
    **_each("q_lora_rank kv_lora_rank mamba_d_state ssm_state_size state_size", 16),
    **_each("qk_rope_head_dim qk_nope_head_dim index_head_dim index_topk chunk_size mamba_chunk_size", 8),
    **_each("linear_num_key_heads", 2),
    **_each("index_n_heads", 16),  # fewer score many keys exactly 0, and the shape of a forward decides among equals
    **_each("linear_num_value_heads linear_num_heads", 4),
    **_each("mamba_n_heads mamba_num_heads", 8),
    **_each("mamba_n_groups n_groups mamba_ngroups", 1),
    **_each("image_size", 16),
    **_each("patch_size", 8),
    **_each("use_sliding_window is_decoder", True),
    **_each("max_window_layers", 1),
    **_each("tie_word_embeddings", False),
    **_each("bos_token_id pad_token_id decoder_start_token_id", 0),
    **_each("eos_token_id", 1),
}
"""Value of a configuration field wherever it occurs."""

SPECIAL: dict[str, dict[str, Any]] = {
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "bamba": {"attn_layer_indices": [1]},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "dbrx": {"attn_config": {"rope_theta": 1e4, "kv_n_heads": 2, "clip_qkv": 8.0}},
    "dory": {"num_hidden_layers": 4, "n_input_layers": 1, "n_output_layers": 1}
    | {"layer_types": ["sliding_attention", "full_attention"] * 2},
    "dots3_note_text": {"per_layer_config": {1: {"kv_lora_rank": 8, "head_dim": 16}}},
    "falcon_h1": {"mamba_d_ssm": 32, "mamba_n_heads": 4},
    "gemma3n_text": {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2}
    | {"num_kv_shared_layers": 2},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "mamba2": {"num_heads": 8, "n_groups": 2},
    "qwen4_exp_text": {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8}
    | {"indexer_budget": 8, "indexer_compress_ratio": 2},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "reformer": {"axial_pos_embds": False},
    "switch_transformers": {"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    "xlstm": {"hidden_size": 64, "qk_dim_factor": 1.0},
    "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
}
"""Further settings of an architecture, beyond sizes."""


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "falcon (alibi)": ("falcon", {"alibi": True}),
    "gpt_bigcode (multi-head)": ("gpt_bigcode", {"multi_query": False}),
    "llama (dynamic rope)": ("llama", {"max_position_embeddings": 40} | _rope("dynamic", factor=2.0)),
    "llama (yarn)": ("llama", _rope("yarn", factor=4.0, original_max_position_embeddings=32)),
    "phi3 (longrope)": (
        "phi3",
        {"original_max_position_embeddings": 40} | _rope("longrope", short_factor=[1.0] * 4, long_factor=[2.0] * 4),
    ),
}
"""Settings that change how an architecture counts positions or keeps its past."""

CASES = {
    **{kind: (AutoModelForCausalLM, kind, {}) for kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES},
    **{name: (AutoModelForCausalLM, kind, settings) for name, (kind, settings) in VARIANTS.items()},
    **{
        f"{kind} (encoder-decoder)" if kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES else kind: (
            AutoModelForSeq2SeqLM,
            kind,
            {"is_decoder": False},
        )
        for kind in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
    },
}
"""Every case of the suite: the auto class that builds it, its architecture and its settings."""


def small(case: str) -> transformers.PreTrainedModel:
    """Build the model of a case."""
    auto, kind, settings = CASES[case]
    return build(small_config(kind, **settings), auto.from_config)


def small_config(kind: str, **settings: Any) -> transformers.PretrainedConfig:
    """Return the configuration of a small model of an architecture."""
    return _small(CONFIG_MAPPING[kind], settings)


def _small(cls: type, settings: dict[str, Any]) -> transformers.PretrainedConfig:
    settings = SPECIAL.get(cls.model_type, {}) | settings
    names = {field.name for field in dataclasses.fields(cls)}
    values = {name: value for name, value in SMALL.items() if name in names}
    if "kv_lora_rank" in names:
        values["num_key_value_heads"] = 4  # latent attention has no grouped heads
    full = cls()
    values |= _parts(full, names)
    for name in ("layer_types", "layers_block_type"):
        kinds = list(dict.fromkeys(getattr(full, name, None) or ()))
        if name in names and len(kinds) > 1:
            values |= {name: kinds, "num_hidden_layers": len(kinds)}
    if "mlp_layer_types" in names:
        kinds = list(dict.fromkeys(getattr(full, "mlp_layer_types", None) or ()))
        values["mlp_layer_types"] = (kinds * 4)[: values["num_hidden_layers"]]
    return cls(**values | settings)


def _parts(full: Any, names: set[str]) -> dict[str, Any]:
    """Shrink the configurations inside a configuration (text, vision, attention)."""
    made = {}
    for name in names & set(full.sub_configs):
        part = getattr(full, name, None)
        if isinstance(part, transformers.PretrainedConfig):
            made[name] = _small(type(part), {})
    return made


def build(config: transformers.PretrainedConfig, make: Callable[..., Any]) -> transformers.PreTrainedModel:
    """Build a model with weights large enough that its text is not one token for ever."""
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in make(config).parameters())
    if size > LARGEST:
        raise ValueError(f"{size} parameters")
    torch.manual_seed(0)
    model = make(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "conv" not in name:
                parameter.normal_(std=0.25)
    return model.eval()
