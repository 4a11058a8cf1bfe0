"""Somebody at a terminal: the diff in colour, the question and its answers, and the view of an edit under way."""

import re
import signal

import pytest
from cli_terminal import Terminal

ASKED = "[y,n,a,q,?] "


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / name for name in ("a.txt", "b.txt", "c.txt")]
    for path in paths:
        path.write_text("beta\n")
    return paths


def contents(files):
    return ["new" if path.read_text() == "[i]gamma[/i]\n" else path.read_text() for path in files]


@pytest.mark.parametrize(
    ("keys", "written"),
    [
        ("yyy", ["new", "new", "new"]),
        ("yny", ["new", "beta\n", "new"]),
        ("na", ["beta\n", "new", "new"]),
        ("yq", ["new", "beta\n", "beta\n"]),
        ("q", ["beta\n", "beta\n", "beta\n"]),
        ("?nyn", ["beta\n", "new", "beta\n"]),
        ("zy q", ["new", "beta\n", "beta\n"]),
    ],
)
def test_each_file_is_asked_for_until_all_or_quit(files, keys, written):
    terminal = Terminal("edit", "-i", "x", *files)
    for key in keys.replace(" ", "n"):
        assert ASKED in terminal.read_until(ASKED)
        terminal.type("\r" if key == " " else key + "\r")
    assert terminal.end() == 0
    assert contents(files) == written
    left = [path.name for path, content in zip(files, contents(files), strict=True) if content != "new"]
    assert [path.name for path in files if f"{path} left as it is" in terminal.screen] == left


def test_what_could_not_be_read_is_said_after_a_q_too(files, tmp_path):
    terminal = Terminal("edit", "-i", "x", *files, tmp_path / "missing.py")
    terminal.read_until(ASKED)
    terminal.type("q\r")
    assert terminal.end() == 3
    assert f"{files[1]} left as it is" in terminal.screen
    assert "missing.py left as it is" not in terminal.screen
    assert "missing.py: " in terminal.screen


def test_a_file_that_would_lose_a_function_is_asked_for_also_after_all(files):
    files[1].write_text("def beta():\n    pass\n")
    terminal = Terminal("edit", "-i", "x", *files)
    terminal.read_until(ASKED)
    terminal.type("a\r")
    assert "leaves out beta: look at the diff" in terminal.read_until(ASKED)
    terminal.type("n\r")
    assert terminal.end() == 0
    assert contents(files) == ["new", "def beta():\n    pass\n", "new"]


def test_a_file_that_its_language_could_no_longer_read_is_asked_for_also_after_all(files, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("beta = 1\n")
    terminal = Terminal("edit", "-i", "x", files[0], files[1], broken)
    terminal.read_until(ASKED)
    terminal.type("a\r")
    assert "breaks the syntax (line 1: " in terminal.read_until(ASKED)
    terminal.type("n\r")
    assert terminal.end() == 0
    assert [*contents(files[:2]), broken.read_text()] == ["new", "new", "beta = 1\n"]


def test_what_was_typed_before_the_question_is_no_answer(files):
    terminal = Terminal("edit", "-i", "be busy", files[0])
    terminal.read_until("working")
    terminal.type("y\r\r")
    assert terminal.read_until(ASKED).endswith(ASKED)
    terminal.type("n\r")
    assert terminal.end() == 0
    assert contents(files[:1]) == ["beta\n"]


def test_what_would_steer_the_terminal_is_shown(files):
    files[0].write_text("beta\t\x1b[2K\rgone\x08\r\n")
    terminal = Terminal("edit", "-i", "x", files[0])
    assert "-beta\t\\x1b[2K\\rgone\\x08\x1b[0m\r\r\n" in terminal.read_until(ASKED)
    terminal.type("n\r")
    assert terminal.end() == 0


def test_the_diff_is_in_colour_and_comes_before_the_question(files):
    terminal = Terminal("edit", "-i", "x", files[0])
    terminal.read_until(ASKED)
    assert "\x1b[31m-beta\x1b[0m\r\n\x1b[32m+[i]gamma[/i]\x1b[0m\r\n" in terminal.screen
    assert terminal.screen.endswith(f"Write it? {ASKED}")
    assert contents(files[:1]) == ["beta\n"]
    terminal.type("\r")
    assert terminal.end() == 0
    assert contents(files[:1]) == ["beta\n"]


def test_an_unclear_answer_is_explained_and_asked_again(files):
    terminal = Terminal("edit", "-i", "x", files[0])
    terminal.read_until(ASKED)
    terminal.type("perhaps\r")
    terminal.read_until(ASKED)
    for letter in "ynaq":
        assert f"\r\n  {letter}: " in terminal.screen
    terminal.type("yes\r")
    assert terminal.end() == 0
    assert contents(files[:1]) == ["new"]


def test_the_end_of_input_at_the_question_stops(files):
    terminal = Terminal("edit", "-i", "x", *files)
    terminal.read_until(ASKED)
    terminal.type("\x04")
    assert terminal.end() == 0
    assert contents(files) == ["beta\n"] * 3


@pytest.mark.parametrize("answered", [0, 1])
def test_ctrl_c_at_a_question_keeps_what_was_written_and_writes_nothing_more(files, answered):
    terminal = Terminal("edit", "-i", "x", *files)
    for _ in range(answered):
        terminal.read_until(ASKED)
        terminal.type("y\r")
    terminal.read_until(ASKED)
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130
    assert contents(files) == ["new"] * answered + ["beta\n"] * (3 - answered)


@pytest.fixture
def long_file(tmp_path):
    path = tmp_path / "long.py"
    path.write_text("".join("beta\n" if number == 20 else f"value_{number} = {number}\n" for number in range(60)))
    return path


def frames(screen):
    """What the terminal showed before the diff, each line without escape codes."""
    live = screen[: screen.index("--- a")]
    return [re.sub(r"\x1b\[[?\d;]*\w", "", line) for line in re.split(r"[\r\n]+", live)]


@pytest.mark.parametrize("columns", [40, 100])
@pytest.mark.parametrize("more", [{}, {"NO_COLOR": "1"}])
def test_the_view_shows_the_growing_diff_and_a_bar_in_the_width_there_is(long_file, columns, more):
    terminal = Terminal("edit", "-i", "stream", long_file, columns=columns, **more)
    terminal.read_until(ASKED)
    shown = frames(terminal.screen)
    assert max(map(len, shown)) < columns
    assert any(line.startswith("- beta") for line in shown)
    assert any(line.startswith("+ gamma") for line in shown)
    counts = [int(found[1]) for line in shown if (found := re.search(r"long.py.* lines (\d+) of 60", line))]
    assert counts == sorted(counts)
    assert 0 < counts[len(counts) // 2] <= 60
    assert any("lines as they were" in line for line in shown)
    coloured = re.search(r"\x1b\[(?:\d+;)*3[0-7]", terminal.screen) is not None
    assert coloured == (not more)
    terminal.type("n\r")
    assert terminal.end() == 0


def test_the_view_is_gone_when_the_diff_comes(long_file):
    terminal = Terminal("edit", "-i", "stream", long_file)
    terminal.read_until(ASKED)
    before_the_diff = terminal.screen[: terminal.screen.index("--- a")]
    assert before_the_diff.rindex("\x1b[2K") > before_the_diff.rindex(" of 60")
    assert "\x1b[?25h" in before_the_diff  # the cursor is back
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_view_gives_the_cursor_back_and_writes_nothing(long_file, number, status):
    old = long_file.read_bytes()
    terminal = Terminal("edit", "-w", "-i", "stream", long_file)
    terminal.read_until("lines 1")
    terminal.process.send_signal(number)
    assert terminal.end() == status
    assert terminal.screen.rindex("\x1b[?25h") > terminal.screen.rindex("\x1b[?25l")
    assert long_file.read_bytes() == old
    assert [path.name for path in long_file.parent.iterdir()] == ["long.py"]
