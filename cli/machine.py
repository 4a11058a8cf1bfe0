"""The machine and the versions that a figure was taken with, in one line."""

import os
import platform
import re
from pathlib import Path


def machine() -> str:
    """Return one line, such as `AMD EPYC, 2 CPUs, Linux; Python 3.11.7, numpy 2.4.6, ...`."""
    packages = ", ".join(f"{name} {version_of(name)}" for name in ("numpy", "numba", "torch", "transformers"))
    where = f"{cpu()}, {os.cpu_count()} CPUs, {platform.system()}"
    return f"{where}; Python {platform.python_version()}, {packages}"


def cpu() -> str:
    """Return the processor's name as the system gives it."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def version_of(package: str) -> str:
    """Return the installed version of a package."""
    from importlib.metadata import PackageNotFoundError, version  # here, because --help shall not wait for it

    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
