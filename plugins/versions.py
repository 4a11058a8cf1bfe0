"""Versions: which transformers and torch drafts are made for, stated here alone."""

import logging
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

from packaging.version import Version

logger = logging.getLogger("lookahead")


@dataclass(frozen=True, slots=True)
class Supported:
    """The versions of one library that are supported: from the oldest tested one on, below the next major one.

    Args:
        name: Name of the distribution.
        oldest: The oldest version that the tests run with; older ones are refused.
        newest: The newest version that the tests run with; newer ones work unless they changed what we build on.
        below: The first version that is refused.
    """

    name: str
    oldest: str
    newest: str
    below: str

    @property
    def requirement(self) -> str:
        """The range as pip writes it.

        Example:
            >>> Supported("transformers", "5.17.0", "5.24.0", "6").requirement
            'transformers>=5.17.0,<6'
        """
        return f"{self.name}>={self.oldest},<{self.below}"

    def check(self, installed: str) -> None:
        """Refuse a version outside the range, and say in the log when it is newer than the tests.

        Raises:
            ImportError: The version is too old or too new.
        """
        found = Version(Version(installed).public)
        if not Version(self.oldest) <= found < Version(self.below):
            raise ImportError(
                f"{self.name} {installed} is installed, but lookup decoding supports {self.requirement}: "
                f'run pip install "{self.requirement}"'
            )
        if found.release[:2] > Version(self.newest).release[:2]:
            logger.warning(
                "%s %s is newer than %s, the newest version that lookup decoding was tested with",
                self.name,
                installed,
                self.newest,
            )


TRANSFORMERS = Supported("transformers", oldest="5.17.0", newest="5.24.0", below="6")
# CI runs both ends of transformers' range; torch's oldest was tried by hand, as its wheels for Linux hold CUDA.
TORCH = Supported("torch", oldest="2.6.0", newest="2.13.0", below="3")


@cache
def check_versions() -> None:
    """Check what is installed, once a process.

    Raises:
        ImportError: A version is outside the supported range.
    """
    for library in (TRANSFORMERS, TORCH):
        library.check(version(library.name))


check_versions()  # before anything is imported that another version may lack
