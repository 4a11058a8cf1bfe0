"""A store's file is whole or refused, whatever happened to it, and holds what the store held."""

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookahead import store_file
from lookahead.memory import MemoryStore
from lookahead.store_file import StoreFileError

KILLS = 30
KILLED_WHILE_SAVING = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from lookahead import store_file
from lookahead.memory import MemoryStore

path, kills = Path(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
stores = []
for name, size in (("old", 150_000), ("new", 250_000)):
    store = MemoryStore()
    store.add("a", rng.integers(0, 9, size), name=name)
    stores.append(store)
wanted = {store.documents("a")[0] for store in stores}
stores[0].save(path)
random.seed(0)
seen = []
for _ in range(kills):
    child = os.fork()
    if child == 0:
        while True:
            for store in reversed(stores):
                store.save(path, overwrite=True)
    time.sleep(random.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    store_file.verify(path)
    (document,) = MemoryStore.load(path).documents("a")
    assert document in wanted, document
    seen.append(document.name)
print(len(seen), len(set(seen)), len(list(path.parent.glob(".*.lookahead-tmp"))))
"""


def filled() -> MemoryStore:
    store = MemoryStore("sha256:abc", budget=10**6, expiry=1e6)
    store.add_all("ann", [("x.py", [1, 2, 3]), ("", [1, 2, 4, 5]), ("ü\ud800.py", [7] * 300)])
    store.add("bob", range(100), name="x.py")
    return store


def contents(store):
    return {
        name: [(info, store.reader(name).longest_match([1, 2])[:4]) for info in store.documents(name)]
        for name in store.namespaces()
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


def test_a_loaded_store_is_the_saved_one(path):
    store = filled()
    store.save(path)
    loaded = MemoryStore.load(path, tokenizer="sha256:abc")
    assert contents(loaded) == contents(store)
    assert (loaded.tokenizer, loaded.budget, loaded.expiry) == ("sha256:abc", 10**6, 1e6)
    store_file.verify(path)


def test_an_empty_store_is_saved_and_loaded(path):
    MemoryStore().save(path)
    assert MemoryStore.load(path).namespaces() == {}


def test_documents_without_names_or_contexts_are_saved_too(path):
    store = MemoryStore()
    store.add_all("a", [("", [7]), ("", [8])])
    store.save(path)
    assert MemoryStore.load(path).documents("a") == store.documents("a")
    assert MemoryStore.load(path).reader("a").longest_match([7]).length == 0


def test_a_loaded_store_can_be_changed_and_saved_again(path):
    filled().save(path)
    store = MemoryStore.load(path)
    store.add("ann", [1, 2, 9], name="x.py")
    store.forget("bob")
    store.save(path)
    assert contents(MemoryStore.load(path)) == contents(store)
    assert contents(store)["ann"][-1][0].tokens == 3


def test_what_was_useful_is_saved(path):
    store = filled()
    reader = store.reader("bob")
    match = reader.longest_match([5])
    reader.mark_useful(match)
    store.save(path)
    (document,) = MemoryStore.load(path).documents("bob")
    assert document.useful > document.added


def test_what_has_expired_is_not_saved(path):
    now = [1_000.0]
    store = MemoryStore(expiry=100, clock=lambda: now[0])
    store.add("a", [1, 2, 3], name="old")
    now[0] += 60
    store.add("a", [1, 2, 4], name="new")
    now[0] += 40
    store.save(path)
    now[0] -= 100
    assert [document.name for document in MemoryStore.load(path, clock=lambda: now[0]).documents("a")] == ["new"]


def test_a_loaded_store_goes_on_expiring(path):
    now = [1_000.0]
    store = MemoryStore(expiry=100, clock=lambda: now[0])
    store.add("a", [1, 2, 3])
    store.save(path)
    now[0] += 100
    assert MemoryStore.load(path, clock=lambda: now[0]).reader("a").longest_match([1]).length == 0


def test_a_file_takes_at_most_20_bytes_a_token(path):
    store = MemoryStore()
    store.add_all("a", [(f"file {number}", [number] * 100) for number in range(200)])
    store.save(path)
    assert path.stat().st_size <= 20 * 200 * 100
    assert abs(path.stat().st_size - store.nbytes) < 1_000


def test_another_tokenizer_is_refused(path):
    filled().save(path)
    with pytest.raises(ValueError, match=r"tokenizer is sha256:other, but .* was built with sha256:abc"):
        MemoryStore.load(path, tokenizer="sha256:other")
    MemoryStore().save(path, overwrite=True)
    with pytest.raises(ValueError, match="built with an unknown one"):
        MemoryStore.load(path, tokenizer="sha256:other")


def test_a_file_of_somebody_else_is_not_overwritten(path):
    filled().save(path)
    with pytest.raises(FileExistsError, match="is not the file of this store"):
        MemoryStore().save(path)
    path.write_text("my diary, which is longer than a header of sixty-four bytes, as diaries are")
    with pytest.raises(FileExistsError, match=r"is not the file of this store.* replace it \(overwrite=True\)"):
        MemoryStore().save(path)
    assert path.read_text().startswith("my diary")
    MemoryStore().save(path, overwrite=True)
    assert MemoryStore.load(path).namespaces() == {}


def test_a_store_that_another_process_has_saved_meanwhile_is_not_overwritten(path):
    filled().save(path)
    mine, theirs = MemoryStore.load(path), MemoryStore.load(path)
    theirs.add("ann", [8, 8])
    theirs.save(path)
    mine.add("ann", [9, 9])
    with pytest.raises(FileExistsError, match="saved by another process"):
        mine.save(path)
    mine.save(path, overwrite=True)


def test_a_store_that_another_process_saves_while_this_one_writes_is_not_overwritten(path, monkeypatch):
    filled().save(path)
    mine, theirs = MemoryStore.load(path), MemoryStore.load(path)
    original = store_file._copy_mode

    def meanwhile(*arguments):
        original(*arguments)
        monkeypatch.setattr(store_file, "_copy_mode", original)
        theirs.forget("bob")
        theirs.save(path)

    monkeypatch.setattr(store_file, "_copy_mode", meanwhile)
    with pytest.raises(FileExistsError, match="saved by another process"):
        mine.save(path)
    assert MemoryStore.load(path).namespaces().keys() == {"ann"}
    assert os.listdir(path.parent) == [path.name]


def test_a_failed_save_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    store = filled()
    store.save(path)
    before = path.read_bytes()
    store.add("ann", [1, 2, 9])

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_file.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_link_to_a_store_stays_a_link_and_the_mode_stays(path, tmp_path):
    filled().save(path)
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    store = MemoryStore.load(link)
    store.add("ann", [4, 4])
    store.save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert contents(MemoryStore.load(path)) == contents(store)


@pytest.mark.skipif(not hasattr(os, "chown"), reason="files have no owners here")
def test_a_store_keeps_its_owner_where_the_system_lets_it(path, monkeypatch):
    given = []
    monkeypatch.setattr(store_file.os, "chown", lambda file, *owner: given.append(owner))
    filled().save(path)
    before = path.stat()
    MemoryStore.load(path).save(path)
    assert given == [(before.st_uid, before.st_gid)]


def test_what_killed_writers_left_is_removed_after_an_hour(path):
    old, fresh = path.with_name(".store.0.lookahead-tmp"), path.with_name(".store.1.lookahead-tmp")
    for file in (old, fresh):
        file.write_bytes(b"part")
    os.utime(old, (time.time() - 4_000,) * 2)
    filled().save(path)
    assert sorted(os.listdir(path.parent)) == [fresh.name, path.name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
def test_a_kill_during_a_save_leaves_the_old_or_the_new_store(path):
    code = [sys.executable, "-W", "ignore", "-c", KILLED_WHILE_SAVING, str(path), str(KILLS)]
    done = subprocess.run(code, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    survived, kinds, unfinished = map(int, done.stdout.split())
    assert survived == KILLS
    assert kinds == 2
    assert unfinished > 0, "no kill hit a save"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "store"
    filled().save(path)
    return path.read_bytes()


@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_flipped_bit_anywhere_is_refused(data, saved, tmp_path):
    place = data.draw(st.integers(0, len(saved) - 1))
    damaged = bytearray(saved)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    (tmp_path / "store").write_bytes(damaged)
    with pytest.raises(StoreFileError):
        MemoryStore.load(tmp_path / "store")
    with pytest.raises(StoreFileError):
        store_file.verify(tmp_path / "store")


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_that_is_cut_off_or_longer_is_refused(data, saved, tmp_path):
    length = data.draw(st.integers(0, len(saved) + 200).filter(lambda length: length != len(saved)))
    (tmp_path / "store").write_bytes((saved + bytes(200))[:length])
    with pytest.raises(StoreFileError):
        MemoryStore.load(tmp_path / "store")


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_format_is_refused_by_its_number(saved, path, version):
    path.write_bytes(saved[:8] + struct.pack("<I", version) + saved[12:])
    with pytest.raises(StoreFileError, match=f"has format {version}, and this version reads format 1"):
        MemoryStore.load(path)


def test_a_missing_file_is_an_os_error(path):
    with pytest.raises(FileNotFoundError):
        MemoryStore.load(path)


def test_of_a_large_file_loading_checks_a_part_and_verify_all(path, monkeypatch):
    monkeypatch.setattr(store_file, "_BLOCK", 4096)
    monkeypatch.setattr(store_file, "CHECKED_AT_LOAD", 64 * 1024)
    store = MemoryStore()
    store.add("a", np.arange(100_000) % 50_000)
    store.save(path)
    whole, refused = path.read_bytes(), 0
    places = range(100, 800_000, 9_973)
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(StoreFileError, match=r"\((tokens|order), bytes"):
            store_file.verify(path)
        try:
            MemoryStore.load(path).reader("a").longest_match([1, 2, 3])
        except StoreFileError:
            refused += 1
    assert 1 / 16 < refused / len(places) < 1 / 6
    for place in (100, 300_000, 700_000):  # damage as long as a tenth of the file is always found
        path.write_bytes(whole[:place] + bytes(80_000) + whole[place + 80_000 :])
        with pytest.raises(StoreFileError):
            MemoryStore.load(path)


def test_loading_maps_the_file_instead_of_reading_it(path):
    filled().save(path)
    (segment,) = MemoryStore.load(path)._live("bob")
    assert not segment.tokens.flags.owndata
    assert not segment.tokens.flags.writeable


def test_where_files_can_not_be_mapped_they_are_read(path, monkeypatch):
    store = filled()
    store.save(path)
    monkeypatch.setattr(store_file, "_MAPPED", False)
    assert contents(MemoryStore.load(path)) == contents(store)


def test_a_process_that_reads_goes_on_with_the_old_store_when_it_is_replaced(path):
    filled().save(path)
    store = MemoryStore.load(path)
    reader = store.reader("bob")
    MemoryStore().save(path, overwrite=True)
    assert reader.continuation(reader.longest_match([41]), 3).tolist() == [42, 43, 44]


def test_it_is_found_by_a_path_relative_to_the_folder(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    filled().save("store")
    assert contents(MemoryStore.load(Path("store"))).keys() == {"ann", "bob"}
