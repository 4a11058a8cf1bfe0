"""What the tests inside vLLM's real engine share; it imports vLLM only where an engine is started."""

from typing import Any

OURS = "lookahead.plugins.vllm.VllmLookupProposer"


def is_installed() -> bool:
    """Whether the real package is there, and not the folder of its tests alone."""
    try:
        import vllm.version  # noqa: F401
    except ImportError:
        return False
    return True


def speculative(tokens: int = 16) -> dict[str, Any]:
    """vLLM's option that lets us draft up to so many tokens."""
    return {"method": "custom_class", "model": OURS, "num_speculative_tokens": tokens}


def started(model: str, speculative_config: dict[str, Any] | None = None, **options: Any) -> Any:
    """An engine in this process, for up to 64 requests of up to 512 tokens."""
    from vllm import LLM

    given = {"dtype": "float32", "max_model_len": 512, "max_num_seqs": 64, "seed": 0, "kv_cache_memory_bytes": 2**28}
    return LLM(
        model,
        speculative_config=speculative_config,
        enforce_eager=True,
        distributed_executor_backend="uni",
        disable_log_stats=False,
        **given | options,
    )
