"""What all tests share: drafts that look at no clock."""

import pytest

from lookahead.pacing import Pacing

PACED = {"test_pacing", "test_real_model", "test_replay"}


@pytest.fixture(autouse=True)
def without_clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draft four tokens per matched one, but where pacing itself is tested: a clock decides differently every run."""
    if request.path.stem not in PACED:
        monkeypatch.setattr(Pacing, "length", lambda self, match_length, limit: min(limit, 4 * match_length))
