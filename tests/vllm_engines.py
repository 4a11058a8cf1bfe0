"""What the tests inside vLLM's real engine share; it imports vLLM only where an engine is started."""

from functools import cache
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

    _let_vllm_scan_numba()
    given = {"dtype": "float32", "max_model_len": 512, "max_num_seqs": 64, "seed": 0, "kv_cache_memory_bytes": 2**28}
    return LLM(
        model,
        speculative_config=speculative_config,
        enforce_eager=True,
        distributed_executor_backend="uni",
        enable_prefix_caching=False,
        disable_log_stats=False,
        **given | options,
    )


@cache
def _let_vllm_scan_numba() -> None:
    """Hide an object of numba's from vLLM's scan of all loaded modules for kernels, which stumbles over it.

    In vLLM's own processes numba is loaded after the scan; here tests before have loaded it.
    """
    import llvmlite.binding.ffi as module
    from vllm.platforms import current_platform

    scan = current_platform.register_triton_kernel_overrides

    def scan_without() -> None:
        library = vars(module).pop("lib")
        try:
            scan()
        finally:
            module.lib = library

    type(current_platform).register_triton_kernel_overrides = staticmethod(scan_without)
