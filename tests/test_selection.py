"""Files, globs and folders on the command line, with what `.gitignore` leaves out left out."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookahead.cli.errors import UsageError
from lookahead.cli.ignored import kept_files
from lookahead.cli.selection import select_files

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is the oracle")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.txt", "src/c.py", "src/d.js", "src/deep/e.py", "out/f.py", ".git/config"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    (tmp_path / "src/g.bin").write_bytes(b"\0\1")
    (tmp_path / "src/h.py").write_bytes(b"")
    (tmp_path / "src/link.py").symlink_to("c.py")
    (tmp_path / ".gitignore").write_text("out/\n*.log\n")
    return tmp_path


@pytest.mark.parametrize(
    ("names", "include", "files"),
    [
        (["a.py"], None, ["a.py"]),
        (["src"], None, ["src/c.py", "src/d.js", "src/deep/e.py"]),
        (["src"], ["*.py"], ["src/c.py", "src/deep/e.py"]),
        (["src"], ["deep/"], ["src/deep/e.py"]),
        (["."], ["*.py", "*.txt"], ["a.py", "b.txt", "src/c.py", "src/deep/e.py"]),
        (["src", "a.py", "src/c.py"], ["*.py"], ["src/c.py", "src/deep/e.py", "a.py"]),
        (["*.py"], None, ["a.py"]),
        (["src/**/*.py"], None, ["src/c.py", "src/deep/e.py", "src/h.py"]),
        (["s*"], ["*.js"], ["src/d.js"]),
        (["out/f.py"], None, ["out/f.py"]),
        (["out"], None, ["out"]),
        (["nothing*"], None, ["nothing*"]),
        (["missing.py", "-"], None, ["missing.py", "-"]),
        (["a.py", "./a.py", "src/../a.py"], None, ["a.py"]),
    ],
)
def test_names_stand_for_files(tree, names, include, files):
    found = select_files(names, include)
    assert [name.removeprefix("./") for name in found] == files


def test_two_names_of_one_file_are_one_file(tree):
    (tree / "src/link_to_c.py").hardlink_to(tree / "src/c.py")
    assert select_files(["src"], ["*.py"]) == ["src/c.py", "src/deep/e.py"]
    assert select_files(["src/link_to_c.py", "src/c.py"]) == ["src/link_to_c.py"]


def test_outside_of_a_repository_what_programs_fetched_is_left_out(tree):
    for name in (".venv/lib/a.py", "node_modules/a/b.py", "src/__pycache__/a.py", ".hidden.py"):
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    in_repository = select_files(["."], ["*.py"])
    shutil.rmtree(tree / ".git")
    outside = select_files(["."], ["*.py"])
    assert sorted(outside) == sorted([".hidden.py", "a.py", "src/c.py", "src/deep/e.py"])
    assert {*in_repository} - {*outside} == {".venv/lib/a.py", "node_modules/a/b.py", "src/__pycache__/a.py"}
    assert select_files([".venv"]) == [".venv/lib/a.py"]


def test_the_real_place_of_a_folder_says_whose_it_is_however_it_is_named(tree, monkeypatch):
    (tree / "beside/.venv").mkdir(parents=True)
    (tree / "beside/.venv/a.py").write_text("x\n")
    (tree / "beside/app/.git").mkdir(parents=True)
    (tree / "beside/app/.gitignore").write_text("*.txt\n")
    (tree / "beside/b.txt").write_text("x\n")
    (tree / ".git/config").unlink()
    (tree / ".git").rmdir()
    (tree / "link").symlink_to("src")
    monkeypatch.chdir(tree / "beside/app")
    assert select_files([".."], ["*.py", "*.txt"]) == ["../b.txt"]
    (tree / "beside/.git").mkdir()
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("deep/\n")
    assert select_files(["../../link"], ["*.py"]) == ["../../link/c.py"]


@pytest.mark.parametrize("name", [".", "*", "?", "[-]"])
def test_a_file_that_nobody_named_is_not_stdin(tree, name):
    (tree / "-").write_text("x\n")
    assert [found for found in select_files([name]) if "-" in found] == ["./-"]
    assert select_files(["-"]) == ["-"]


@needs_git
def test_a_working_tree_of_its_own_shares_the_patterns_of_its_repository(tmp_path):
    main, other = tmp_path / "main", tmp_path / "other"
    subprocess.run(["git", "init", "-q", main], check=True)
    call = ["git", "-C", main, "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*call, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*call, "worktree", "add", "-q", other], check=True, capture_output=True)
    (main / ".git/info").mkdir(exist_ok=True)
    (main / ".git/info/exclude").write_text("secret.py\n")
    (main / ".git/modules/sub/info").mkdir(parents=True)
    (main / ".git/modules/sub/info/exclude").write_text("secret.py\n")
    (main / "sub").mkdir()
    (main / "sub/.git").write_text("gitdir: ../.git/modules/sub\n")
    for folder in (other, main / "sub"):
        for name in ("a.py", "secret.py"):
            (folder / name).write_text("x\n")
        assert select_files([str(folder)], ["*.py"]) == [str(folder / "a.py")]


def test_a_file_with_the_characters_of_a_glob_is_itself(tree):
    (tree / "[a].py").write_text("x\n")
    assert select_files(["[a].py"]) == ["[a].py"]


def test_a_nearer_gitignore_decides(tree):
    (tree / "src/.gitignore").write_text("*.py\n!c.py\n")
    assert select_files(["src"], ["*.py"]) == ["src/c.py"]
    assert select_files(["src/deep"], ["*.py"]) == ["src/deep"]


@needs_git
@pytest.mark.parametrize(
    "patterns",
    [b"\xef\xbb\xbfa.py\nb.txt\n", b"a.py\r\nb.txt\r\n", b"!\na.py\n", b"a.py\nb.txt\\\nsrc/\n", b"[z-a]\na.py\n"],
    ids=["byte order mark", "carriage returns", "lone !", "\\ at an end", "no range"],
)
def test_odd_lines_are_read_as_git_reads_them(tree, patterns):
    (tree / ".gitignore").write_bytes(patterns)
    shutil.rmtree(tree / ".git")
    subprocess.run(["git", "init", "-q", tree], check=True)
    call = ["git", "-C", tree, "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(call, check=True, capture_output=True, text=True).stdout.split("\0")
    ours = [path.relative_to(tree).as_posix() for path in kept_files(tree)]
    assert "a.py" not in ours
    assert sorted(ours) == sorted(name for name in listed if name and not (tree / name).is_symlink())


def test_a_pattern_to_include_that_is_none_is_named(tree):
    with pytest.raises(UsageError, match=r"--include '!' is no pattern"):
        select_files(["src"], ["!"])


@pytest.mark.parametrize("name", ["loop", "n" * 300, "a.py/below"])
def test_a_name_that_can_not_be_looked_up_leaves_the_others_alone(tree, name):
    (tree / "loop").symlink_to("loop")
    assert select_files([name, "a.py"]) == [name, "a.py"]
    assert "a.py" in select_files(["*"])


def test_backups_and_what_a_killed_writer_left_are_no_files_to_edit_unless_named(tree):
    for name in ("src/c.py~", "src/c.py.~2~", "src/.c.py.0a1b.lookahead-tmp"):
        (tree / name).write_text("x\n")
        assert name not in [*select_files(["src"]), *select_files(["src/*", "src/.*"])]
        assert select_files([name]) == [name]


NAMES = st.sampled_from(["a", "b", "c.py", "a.py"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
PATTERN = st.sampled_from(
    ["a", "/a", "a/", "*.py", "!c.py", "b/*", "**/c.py", "!a.py", "a/**", "/b/c.py", "# a", "", "[ab]"]
)


@needs_git
@settings(max_examples=60)
@given(
    files=st.sets(PATHS, max_size=8),
    ignores=st.dictionaries(st.sampled_from(["", "a/", "b/"]), st.lists(PATTERN, max_size=3)),
)
def test_git_leaves_out_the_same(tmp_path_factory, files, ignores):
    root = tmp_path_factory.mktemp("tree")
    written = dict.fromkeys(files, "x")
    written |= {f"{folder}.gitignore": "\n".join(patterns) for folder, patterns in ignores.items()}
    for name, text in written.items():
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # one is a file, the other wants it to be a folder
    subprocess.run(["git", "init", "-q", root], check=True)
    call = ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(call, check=True, capture_output=True, text=True).stdout.split("\0")
    ours = [path.relative_to(root).as_posix() for path in kept_files(root)]
    assert sorted(ours) == sorted(filter(None, listed))
