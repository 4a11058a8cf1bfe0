"""`specdec-lookup memory`: what goes in is what is found, shown, forgotten and checked; mistakes are one sentence."""

import json
import os
import subprocess
import sys

import pytest
from cli_fakes import run
from tokenizers import Tokenizer, models, pre_tokenizers

from lookahead.cli.units import duration, size
from lookahead.memory import MemoryStore, tokenizer_identity


def save_tokenizer(path, alphabet):
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.enable_truncation(5)
    tokenizer.save(str(path))
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a repository and a tokenizer of single bytes, where the command runs."""
    monkeypatch.chdir(tmp_path)
    save_tokenizer(tmp_path / "tokenizer.json", sorted(pre_tokenizers.ByteLevel.alphabet()))
    for name, text in {
        "src/a.py": b"alpha = 1\n",
        "src/deep/b.py": "# größe\nbeta = 2\n".encode(),
        "src/empty.py": b"\n",
        "src/image.png": b"\x89PNG\0\0",
        "src/latin.txt": "größe".encode("latin-1"),
        "src/.git/config": b"hidden = 1\n",
        "src/__pycache__/a.pyc": b"cached",
        "notes.md": b"\xef\xbb\xbfalpha and omega\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text)
    return tmp_path


def memory_command(*argv, **more):
    return run("memory", *argv, **more)


def build(*argv, **more):
    return memory_command("build", *argv, "--tokenizer", "tokenizer.json", **more)


def add(*argv, **more):
    return memory_command("add", *argv, "--tokenizer", "tokenizer.json", **more)


def documents(namespace="default"):
    return {document.name: document.tokens for document in MemoryStore.load("store").documents(namespace)}


def test_build_takes_in_named_files_and_all_text_of_folders(place):
    done = build("store", "src", "notes.md")
    assert (done.status, done.stdout) == (0, b"")
    assert done.stderr.startswith("3 documents, 45 tokens in ")
    assert done.stderr.endswith("; left out what is no text: 3 files\n")
    assert documents() == {"src/a.py": 10, "src/deep/b.py": 19, "notes.md": 16}


def test_a_file_that_is_named_twice_is_one_document(place):
    done = build("store", "src", "src/a.py", "notes.md", "notes.md")
    assert done.stderr.startswith("3 documents, 45 tokens in ")
    assert documents() == {"src/a.py": 10, "src/deep/b.py": 19, "notes.md": 16}


def test_the_text_is_found_in_its_own_namespace_only(place):
    build("store", "src", "--namespace", "ann")
    add("store", "notes.md", "--namespace", "bob")
    store, tokenizer = MemoryStore.load("store"), Tokenizer.from_file("tokenizer.json")
    tokenizer.no_truncation()
    for namespace, following in (("ann", "= 1\n"), ("bob", "and omega\n"), ("eve", "")):
        reader = store.reader(namespace)
        match = reader.longest_match(tokenizer.encode("alpha ").ids)
        assert reader.continuation(match, 99).tolist() == tokenizer.encode(following).ids


def test_a_file_added_again_is_replaced(place):
    build("store", "src")
    (place / "src/a.py").write_text("alpha = 1234\n")
    done = add("store", "src", "--json")
    told = json.loads(done.stdout)
    assert (told["documents"], told["tokens"], told["left_out"]) == (2, 32, 3)
    assert documents() == {"src/a.py": 13, "src/deep/b.py": 19}


def test_info_shows_namespaces_and_settings_to_people_and_programs(place):
    build("store", "src", "--namespace", "ann", "--budget", "1M", "--expire", "2h")
    add("store", "notes.md")
    told = json.loads(memory_command("info", "store", "--json", "--documents").stdout)
    assert told["tokenizer"].startswith("sha256:")
    assert (told["budget"], told["expiry"], told["bytes"]) == (2**20, 7200, os.path.getsize("store"))
    assert {name: (info["documents"], info["tokens"]) for name, info in told["namespaces"].items()} == {
        "ann": (2, 29),
        "default": (1, 16),
    }
    assert [listed["name"] for listed in told["namespaces"]["default"]["listed"]] == ["notes.md"]
    shown = memory_command("info", "store", "--documents").stdout.decode()
    for part in (told["tokenizer"], "1,048,576 bytes", "7,200", "ann", "default", "src/deep/b.py"):
        assert part in shown


def test_names_steer_no_terminal_and_break_no_line(place):
    store = MemoryStore("id\x1b")
    store.add("a\x1b[2J", [1, 2], name="b\nc\udcff")
    store.save("store")
    shown = memory_command("info", "store", "--documents").stdout.decode()
    assert shown.count("a\\x1b[2J\n") == 2
    assert "  b\\nc\\udcff\n" in shown
    assert "\x1b" not in shown


def test_the_environment_names_the_tokenizer_where_the_option_does_not(place):
    assert memory_command("build", "store", "src", variables={"SPECDEC_LOOKUP_MODEL": str(place)}).status == 0
    assert add("store", "notes.md", variables={"SPECDEC_LOOKUP_MODEL": "nobody/nothing"}).status == 0


@pytest.mark.parametrize("argv", [["memory", "build", "store", "src"], ["replay", "records"], ["bench", "index"]])
@pytest.mark.parametrize("name", ["nobody/nothing", "tokenizer.json"])
def test_of_a_model_without_a_folder_the_tokenizer_is_asked_for(place, argv, name):
    (place / "records").write_text(json.dumps({"prompt": "abc", "output": "abcdefgh"}))
    done = run(*argv, variables={"SPECDEC_LOOKUP_MODEL": name})
    assert done.status == 3
    assert f"there is no {name}/tokenizer.json: name the tokenizer of the model in SPECDEC_LOOKUP_MODEL" in done.stderr
    assert "with --tokenizer" in done.stderr


def test_of_a_damaged_embedded_model_the_folder_to_delete_is_named(place):
    folder = place / "home" / "smollm2-135m-instruct-1"
    folder.mkdir(parents=True)
    done = memory_command("build", "store", "src", variables={"SPECDEC_LOOKUP_HOME": str(place / "home")})
    assert (done.status, f"delete {folder}: it is made again" in done.stderr) == (3, True)


def test_forget_removes_a_document_or_a_namespace(place):
    build("store", "src")
    add("store", "src", "--namespace", "ann")
    assert memory_command("forget", "store", "src/a.py").stderr == "1 document removed\n"
    assert (documents().keys(), documents("ann").keys()) == ({"src/deep/b.py"}, {"src/a.py", "src/deep/b.py"})
    assert json.loads(memory_command("forget", "store", "--namespace", "ann", "--json").stdout) == {"removed": 2}
    assert MemoryStore.load("store").namespaces().keys() == {"default"}


def test_forgetting_what_is_not_there_removes_nothing(place):
    build("store", "src")
    done = memory_command("forget", "store", "src/a.py", "src/c.py")
    assert (done.status, len(documents())) == (3, 2)
    assert "has no document src/c.py in namespace default, and nothing was removed" in done.stderr
    done = memory_command("forget", "store", "--namespace", "ann")
    assert (done.status, len(documents())) == (3, 2)
    assert "has no namespace ann" in done.stderr
    done = memory_command("forget", "store")
    assert (done.status, len(documents())) == (2, 2)
    done = memory_command("forget", "store", "--namespace", "")
    assert (done.status, len(documents())) == (2, 2)
    assert "--namespace is empty" in done.stderr


def test_verify_says_whether_a_store_is_whole(place):
    build("store", "src")
    assert memory_command("verify", "store").stderr == "store is whole\n"
    assert json.loads(memory_command("verify", "store", "--json").stdout) == {"ok": True}
    damaged = bytearray((place / "store").read_bytes())
    damaged[100] ^= 1
    (place / "store").write_bytes(damaged)
    done = memory_command("verify", "store")
    assert (done.status, done.stdout) == (3, b"")
    assert done.stderr.startswith("error: store is damaged (tokens, bytes 64 to ")


def test_build_replaces_a_store_only_by_force(place):
    build("store", "src")
    done = build("store", "notes.md")
    assert (done.status, len(documents())) == (3, 2)
    assert "store exists" in done.stderr
    assert build("store", "notes.md", "--force").status == 0
    assert documents() == {"notes.md": 16}


def test_nothing_but_a_store_or_an_empty_file_gives_way(place):
    """Who forgets STORE names a source first, which no --force may replace."""
    for more in ([], ["--force"]):
        done = build("src/a.py", "src/deep", *more)
        assert (done.status, (place / "src/a.py").read_bytes()) == (2, b"alpha = 1\n")
        assert "src/a.py is there and no memory store: the first name is STORE" in done.stderr
    (place / "store").touch()
    assert build("store", "src", "--force").status == 0
    (place / "store").write_bytes((place / "store").read_bytes()[:90])  # damaged
    assert build("store", "src", "--force").status == 0
    assert len(documents()) == 2


def test_another_tokenizer_is_refused(place):
    build("store", "src")
    save_tokenizer(place / "other.json", sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=True))
    done = memory_command("add", "store", "notes.md", "--tokenizer", "other.json")
    assert (done.status, len(documents())) == (3, 2)
    assert "build it again with this tokenizer" in done.stderr


def test_the_tokenizer_of_transformers_is_the_one_of_its_file(place):
    from transformers import PreTrainedTokenizerFast

    build("store", "src")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file="tokenizer.json")
    assert MemoryStore.load("store").tokenizer == tokenizer_identity(tokenizer.get_vocab())


def test_the_budget_holds_from_then_on(place):
    build("store", "src", "--budget", "700")
    assert add("store", "notes.md").status == 0
    large = place / "large.txt"
    large.write_text("x" * 80)
    assert add("store", "large.txt").status == 0
    assert "large.txt" in documents()
    assert len(documents()) < 4
    large.write_text("x" * 800)
    done = add("store", "large.txt")
    assert (done.status, documents()["large.txt"]) == (3, 80)
    assert "more than the budget of 700" in done.stderr


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["build", "store", ""], 2, "the name is empty"),
        (["build", "", "src"], 2, "the name is empty"),
        (["build", "store", "nowhere"], 3, "nowhere does not exist"),
        (["build", "store", "src/image.png"], 3, "src/image.png is binary"),
        (["build", "store", "src/latin.txt"], 3, "src/latin.txt is not UTF-8"),
        (["build", "store", "src/empty.py"], 3, "src/empty.py is empty"),
        (["build", "store", "src/.git/hooks"], 3, "does not exist"),
        (["build", "store", "src/__pycache__/none"], 3, "does not exist"),
        (["build", "nowhere/store", "src"], 3, "nowhere/store can't be used: no such file"),
        (["build", "store", "src", "--namespace", ""], 3, "namespace must be text"),
        (["build", "store", "src", "--budget", "much"], 2, "'much' is no size"),
        (["build", "store", "src", "--expire", "0h"], 2, "'0h' is no time"),
        (["add", "store", "src"], 3, "there is no store"),
        (["build", "store"], 2, "the following arguments are required: PATH"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(place, argv, status, message):
    before = sorted(os.listdir(place))
    more = ["--tokenizer", "tokenizer.json"] if argv[0] in ("build", "add") else []
    done = memory_command(*argv, *more)
    assert (done.status, done.stdout) == (status, b"")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(os.listdir(place)) == before


@pytest.mark.parametrize("command", ["info", "verify", "forget"])
def test_what_is_no_store_is_named(place, command):
    more = ["x"] if command == "forget" else []
    assert "notes.md is no memory store" in memory_command(command, "notes.md", *more).stderr
    assert "nowhere can't be used: no such file" in memory_command(command, "nowhere", *more).stderr


def test_a_folder_without_text_is_named(place):
    (place / "none").mkdir()
    done = build("store", "none")
    assert done.status == 3
    assert "there is no text file under the given paths" in done.stderr
    assert not (place / "store").exists()


def test_a_store_that_changed_meanwhile_is_left_alone(place, monkeypatch):
    build("store", "src")
    original = MemoryStore.add_all

    def meanwhile(store, namespace, texts):
        monkeypatch.setattr(MemoryStore, "add_all", original)
        assert add("store", "notes.md").status == 0
        original(store, namespace, texts)

    monkeypatch.setattr(MemoryStore, "add_all", meanwhile)
    done = add("store", "src")
    assert (done.status, "notes.md" in documents()) == (3, True)
    assert "was changed by another process meanwhile: run the command again" in done.stderr


def test_help_is_instant(place):
    code = (
        "import sys\nfrom lookahead.cli.main import main\nmain(['memory', 'build', '--help'])\n"
        "heavy = {'numpy', 'torch', 'numba', 'rich', 'tokenizers'} & {*sys.modules}\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: specdec-lookup memory build")


def test_progress_is_for_terminals_only(place):
    assert "Writing ..." in build("store", "src", terminal=True).stderr
    assert len(build("store", "src", "--force").stderr.splitlines()) == 1


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("1.5k", 1536), ("2G", 2**31)])
def test_sizes_have_units(text, value):
    assert size(text) == value


@pytest.mark.parametrize(("text", "value"), [("90", 90), ("1.5m", 90), ("2h", 7200), ("30d", 2_592_000)])
def test_times_have_units(text, value):
    assert duration(text) == value
