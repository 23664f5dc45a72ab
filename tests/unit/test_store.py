"""The store keeps results by digest, never unpickles, never evicts, and says what went wrong."""

import gc
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from headviz.errors import BadInput, Failure, StoreFull
from headviz.store import Store, readable_size
from tests.unit.samples import head_pattern, score_table
from tests.unit.test_codec import same

A, B, C = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results")


class Trap:
    """Unpickling it creates a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def plant(store: Store, statement: str, values: tuple = ()) -> None:
    with sqlite3.connect(store.folder / "cache.db") as database:
        assert database.execute(statement, values).rowcount > 0
    database.close()


def value_file(store: Store) -> Path:
    (found,) = store.folder.glob("*/*/*.val")
    return found


def test_what_is_put_comes_back(store):
    assert store.get(A) is None
    assert A not in store
    store.put(A, score_table())
    store.put(B, head_pattern())
    assert same(store.get(A), score_table())
    assert same(Store(store.folder).get(B), head_pattern())
    assert A in store
    store.put(A, score_table(N=3))
    assert store.get(A).values.shape[1] == 3
    assert store.problems == []


@pytest.mark.parametrize("key", ["", "../x", "A" * 64, "a" * 63, 7, None])
def test_only_digests_are_keys(store, key):
    for call in (store.get, store.__contains__, lambda k: store.put(k, score_table())):
        with pytest.raises(BadInput):
            call(key)


def test_a_trap_does_spring(tmp_path):
    pickle.loads(pickle.dumps(Trap(tmp_path / "mark")))  # noqa: S301  the test below proves nothing otherwise
    assert (tmp_path / "mark").exists()


@pytest.mark.parametrize("where", ["row", "file"])
def test_a_planted_pickle_is_never_loaded(store, tmp_path, where):
    mark = tmp_path / "mark"
    store.put(A, score_table())
    trap = pickle.dumps(Trap(mark))
    if where == "row":
        plant(store, "UPDATE Cache SET mode = 4, value = ?, filename = NULL", (trap,))
    else:
        value_file(store).write_bytes(trap)
        plant(store, "UPDATE Cache SET mode = 4")
    assert [entry.digest for entry in store.entries()] == [A]
    assert store.get(A) is None
    assert not mark.exists()
    assert len(store.problems) == 1
    assert A not in store
    assert store.get(A) is None
    assert len(store.problems) == 1


def test_a_pickled_key_is_never_loaded(store, tmp_path):
    mark = tmp_path / "mark"
    store.put(A, score_table())
    store.put(B, score_table())
    plant(store, "UPDATE Cache SET key = ?, raw = 0 WHERE key = ?", (pickle.dumps(Trap(mark)), A))
    assert [entry.digest for entry in store.entries()] == [B]
    assert not mark.exists()


def test_a_planted_file_name_is_neither_read_nor_removed(store, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    store.put(A, score_table())
    plant(store, "UPDATE Cache SET filename = ?", ("../victim",))
    assert store.get(A) is None
    assert store.prune(older_than=-1) == []
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "gone"])
def test_a_damaged_entry_is_removed_and_reported(store, damage):
    store.put(A, score_table())
    path = value_file(store)
    blob = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"flip": blob[:-1] + bytes([blob[-1] ^ 1]), "cut": blob[:-5], "empty": b""}[damage])
    assert store.get(A) is None
    (sentence,) = store.problems
    assert A[:12] in sentence
    assert A not in store
    store.put(A, score_table())
    assert same(store.get(A), score_table())


def test_a_good_entry_put_meanwhile_is_not_removed(store, monkeypatch):
    """Between reading a damaged entry and removing it, another process may have put a good one."""
    store.put(A, score_table())
    value_file(store).write_bytes(b"")
    other = Store(store.folder)
    drop = store._drop_corrupt
    monkeypatch.setattr(store, "_drop_corrupt", lambda digest: (other.put(A, score_table()), drop(digest))[1])
    assert same(store.get(A), score_table())
    assert A in store
    assert store.problems == []


def test_the_limit_refuses_before_writing(tmp_path):
    free = Store(tmp_path / "results")
    free.put(A, score_table())
    store = Store(free.folder, limit=free.size() + 1000)
    with pytest.raises(StoreFull, match="HEADVIZ_STORE_LIMIT"):
        store.put(B, score_table(N=100))
    assert B not in store
    assert len(list(store.folder.glob("*/*/*.val"))) == 1
    store.put(A, score_table(values=score_table().values + 1))  # the same size in the same place is no growth
    assert A in store


def test_nothing_is_evicted(tmp_path):
    """diskcache's own limit is 1 GB with ten rows culled a write; here both are off."""
    store = Store(tmp_path / "results")
    store.put(A, score_table())
    plant(store, "UPDATE Settings SET value = 1 WHERE key = 'size_limit'")
    again = Store(store.folder)
    for n in range(30):
        again.put(f"{n:064x}", score_table())
    assert len(again.entries()) == 31


def test_entries_sizes_and_prune(store):
    for digest in (A, B, C):
        store.put(digest, score_table())
        time.sleep(0.01)
    first = store.entries()[0]
    assert (first.digest, first.type, first.model) == (C, "ScoreTable", "smollm2")
    assert first.bytes == value_files_size(store) // 3
    assert abs(first.created - time.time()) < 60
    assert store.stats() == {"count": 3, "bytes": store.size(), "limit": None}
    assert [e.digest for e in store.prune(keep_bytes=2 * first.bytes)] == [A]
    assert [e.digest for e in store.prune(digests=[B])] == [B]
    assert store.prune(older_than=60) == []
    assert [e.digest for e in store.prune(older_than=0)] == [C]
    assert store.entries() == []
    assert value_files_size(store) == 0
    with pytest.raises(BadInput):
        store.prune()


def value_files_size(store: Store) -> int:
    return sum(path.stat().st_size for path in store.folder.glob("*/*/*.val"))


def test_threads_share_one_store(store):
    failures = []

    def work(number: int) -> None:
        try:
            for n in range(10):
                store.put(f"{n:064x}", score_table())
                assert same(store.get(f"{n:064x}"), score_table())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(store.entries()) == 10


def test_processes_share_one_store(store):
    code = (
        "import sys; from headviz.store import Store; from tests.unit.samples import score_table\n"
        "store = Store(sys.argv[1])\n"
        "for n in range(10): store.put(f'{n:064x}', score_table()); assert store.get(f'{n:064x}') is not None\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(store.folder)]) for _ in range(3)]
    assert [process.wait(30) for process in running] == [0, 0, 0]
    assert len(store.entries()) == 10
    assert store.problems == []


def test_no_connection_is_left_open(store):
    def connections() -> int:
        return sum(1 for fd in Path("/proc/self/fd").iterdir() if "cache.db" in str(fd.resolve()))

    if not Path("/proc/self/fd").exists():
        pytest.skip("counts open files through /proc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thread = threading.Thread(target=lambda: (store.put(A, score_table()), store.get(A), store.entries()))
        thread.start()
        thread.join()
        store.size()
        gc.collect()
        assert connections() == 0


@pytest.mark.parametrize("name", ["a 'quoted' \"home\"", "ünïcode 日本", "per%cent", "new\nline", "~tilde"])
def test_folders_with_odd_names(tmp_path, name):
    store = Store(tmp_path / name / "results")
    store.put(A, score_table())
    assert (tmp_path / name / "results" / "cache.db").exists()
    assert same(store.get(A), score_table())


def test_a_folder_name_that_would_be_expanded_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"\$"):
        Store(tmp_path / "$HOME").get(A)


def test_a_broken_database_is_one_sentence(tmp_path):
    (tmp_path / "cache.db").write_bytes(b"this is no database" * 1000)
    with pytest.raises(Failure, match="Move that folder away"):
        Store(tmp_path).get(A)


def test_only_bytes_are_written(store):
    store.put(A, score_table())
    with store._open() as cache:
        for wrong in ({"a": 1}, 7, 1.5, None, [b"x"]):
            with pytest.raises(TypeError):
                cache.set(B, wrong)
        for key in (7, ("a",), b"a"):
            with pytest.raises(TypeError):
                cache.set(key, b"x")
    assert [e.digest for e in store.entries()] == [A]


def test_sizes_in_words():
    assert [readable_size(n) for n in (0, 999, 1500, 2_500_000, 3 * 10**9)] == [
        "0 bytes",
        "999 bytes",
        "1.5 KB",
        "2.5 MB",
        "3.0 GB",
    ]


def test_keys_and_requests_without_reading_results(store, monkeypatch):
    assert store.digests() == set()
    store.put(A, score_table())
    assert store.digests() == {A}
    with monkeypatch.context() as patched:
        patched.setattr(store, "get", lambda digest: pytest.fail("the result was read"))
        assert store.request(A) == score_table().provenance.request
    assert store.request(B) is None


def test_the_request_of_a_result_from_before_requests_were_noted(store):
    from headviz.codec import pack

    with store._open() as cache:
        cache.set(A, pack(score_table()), tag='{"type": "ScoreTable"}')
        cache.set(B, b"damaged", tag="null")
    assert store.request(A) == score_table().provenance.request
    assert store.request(B) is None
