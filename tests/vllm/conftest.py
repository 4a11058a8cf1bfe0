"""A tiny model on disk, and engines that start and end with their test module; skipped where vLLM is missing."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from vllm_engines import is_installed, started

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the engine's state can be looked at, and patched
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Collect nothing without vLLM, unless it is required."""
    return None if os.environ.get("REQUIRE_VLLM") or is_installed() else True


@pytest.fixture(scope="session")
def real_model() -> str:
    """The embedded model's folder."""
    from lookahead.cli.embedded import default_model_path

    return str(default_model_path())


@pytest.fixture(scope="session")
def tiny_model(real_model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random Llama with the embedded model's tokenizer."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = AutoTokenizer.from_pretrained(real_model)
    save_llama(folder, len(tokenizer), eos_token_id=tokenizer.eos_token_id)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def model_of_eight_tokens(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random Llama without a tokenizer, with so few tokens that all texts can be counted."""
    folder = tmp_path_factory.mktemp("eight")
    save_llama(folder, 8)
    return str(folder)


def save_llama(folder: Path, vocabulary: int, **tokens: int) -> None:
    """Save a random model, with weights large enough that its text is not one token for ever."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
    config = LlamaConfig(vocab_size=vocabulary, max_position_embeddings=512, **sizes, **heads, **tokens)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.25)
    model.float().save_pretrained(folder)


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Any]]:
    """Start engines, which end with the module; the same one for the same arguments."""
    engines: dict[str, Any] = {}

    def made(*arguments: Any, **options: Any) -> Any:
        name = repr((arguments, sorted(options.items())))
        if name not in engines:
            engines[name] = started(*arguments, **options)
        return engines[name]

    yield made
    engines.clear()
    gc.collect()
