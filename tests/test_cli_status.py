"""The status line is one line on a terminal and nothing elsewhere."""

import re
from types import SimpleNamespace

import pytest
from cli_fakes import environment

from lookahead.cli.console import Console
from lookahead.cli.status import StatusStreamer, live_progress, live_status, summary
from lookahead.stats import DecodingStats, StepRecord


def figures() -> DecodingStats:
    stats = DecodingStats(prompt_tokens=100)
    stats.start_decoding(0.5)
    stats.record(StepRecord(6, 3, 4, 7, "context", 2, 0.0, 0.25))
    stats.record(StepRecord(0, 0, 1, 1, "", 0, 0.0, 0.25))
    return stats


def test_the_summary_has_speed_steps_and_acceptance():
    assert summary(figures()) == "6 tokens, 10.0 tokens/s, 2.5 tokens per step, 50% of 6 draft tokens accepted"


def test_without_drafts_the_summary_has_no_acceptance():
    assert "draft" not in summary(DecodingStats())


def test_the_streamer_shows_figures_now_and_then_from_the_first_step_on(monkeypatch):
    clock = SimpleNamespace(now=10.0)
    monkeypatch.setattr("lookahead.cli.status.time.monotonic", lambda: clock.now)
    shown: list[str] = []
    running = DecodingStats()
    streamer = StatusStreamer(lambda: running, shown.append)
    streamer.put([1, 2, 3])
    assert shown == []
    running = figures()
    for _ in range(30):
        clock.now += 0.03
        streamer.put([4])
    streamer.end()
    assert 5 <= len(shown) <= 10
    assert {*shown} == {summary(running)}


def test_nothing_is_shown_where_there_is_no_terminal():
    surroundings = environment()
    with live_status(Console(surroundings), "loading") as show:
        show("half way")
    assert surroundings.stderr.getvalue() == ""


@pytest.mark.parametrize("color", ["auto", "never"])
def test_a_terminal_shows_one_line_that_is_gone_afterwards(monkeypatch, color):
    monkeypatch.setenv("COLUMNS", "40")
    surroundings = environment(terminal=True)
    with live_status(Console(surroundings, color), "loading") as show:
        show("[i]a.py[/i]: " + "x" * 100)
    screen = surroundings.stderr.getvalue()
    frames = re.split(r"\r?\x1b\[2K", screen)
    assert any("[i]a.py[/i]: xxx" in frame for frame in frames)
    assert all(len(re.sub(r"\x1b\[[?\d;]*\w|[\r\n]", "", frame)) <= 40 for frame in frames)
    assert ("\x1b[3" in screen) == (color == "auto")


def test_the_bar_counts_what_is_done_and_is_gone_afterwards(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    surroundings = environment(terminal=True)
    with live_progress(Console(surroundings), "warming up", 3) as advance:
        for name in ("[i]one[/i]", "two", "three"):
            advance(name)
    screen = surroundings.stderr.getvalue()
    assert "warming up" in screen
    assert "2/3" in screen
    assert "three" in screen
    assert screen.rindex("\x1b[2K") > screen.rindex("2/3")


def test_no_bar_is_shown_where_there_is_no_terminal():
    surroundings = environment()
    with live_progress(Console(surroundings), "warming up", 3) as advance:
        advance("one")
    assert surroundings.stderr.getvalue() == ""
