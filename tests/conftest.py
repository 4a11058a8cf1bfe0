"""What all tests share: drafts that look at no clock, examples that are the same in every run, and one thread."""

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny models gain nothing from threads, and wait for busy cores

import pytest
import setuptools  # noqa: F401  (before a test looks for pip: after that, Python 3.11 gives quanto another distutils)
from hypothesis import HealthCheck, settings

from lookahead.batch_pacing import BatchPacing
from lookahead.pacing import Pacing
from lookahead.planning import FOLLOWED

if TYPE_CHECKING:
    from cli_fakes import Recorder

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it, and all that it starts

PACED = {"test_together", "test_pacing", "test_proposer", "test_real_model", "test_replay"}

settings.register_profile("default", derandomize=True, deadline=None, print_blob=True)
settings.register_profile(
    "explore", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def without_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draft all that has a chance, but where pacing itself is tested: a clock decides differently every run."""
    if request.path.stem not in PACED:
        monkeypatch.setattr(Pacing, "length", lambda self, plan, *_: int(plan.chosen[FOLLOWED]))


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let batches draft all that has a chance: all widths cost the same."""
    free, deciding = BatchPacing(), BatchPacing.deciding
    for width in (1, 4000, 1):
        free.observe(1, width, seconds=1.0, tokens=1)
    monkeypatch.setattr(BatchPacing, "deciding", lambda self, requests, rows: deciding(free, 1, rows))


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch) -> "Recorder":
    """A perfect model for the instruction of ``cli_fakes.EDIT``; tests may put another one inside."""
    from cli_fakes import Recorder, replacing

    from lookahead.cli import session

    recorder = Recorder(replacing("beta", "gamma"))
    monkeypatch.setattr(session, "load_editor", lambda args, console, trace: recorder)
    return recorder


@pytest.fixture
def file(tmp_path: Path, editor: "Recorder") -> Path:
    """A file to edit by it."""
    from cli_fakes import OLD

    path = tmp_path / "a.py"
    path.write_text(OLD)
    return path
