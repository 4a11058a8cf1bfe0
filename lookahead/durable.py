"""Files that outlive a power cut."""

import contextlib
import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder last through a power cut, where the platform can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
