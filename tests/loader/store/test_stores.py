"""What every store promises, on the file system mounted here and on a real HDFS; and how files are
moved where a rename is a copy and a deletion, as on S3: any two may do it at once."""

import os
import stat
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from harness.hadoop.hdfs import RunningHdfs
from loader.errors import StoreError
from loader.store.hadoop import ConditionalCreation
from loader.store.local import LocalStore
from loader.store.store import Store
from tests.loader.store.hadoop_stores import hadoop_store

RACERS = 8
ODD = "dt=2026-11-20/hour=07/a b%20c;{d} é"


@pytest.fixture(params=["file", "hdfs"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "file":
        return LocalStore(f"file://{tmp_path}/root %41")
    spark: SparkSession = request.getfixturevalue("spark")
    hdfs: RunningHdfs = request.getfixturevalue("hdfs")
    return hadoop_store(spark, hdfs, f"{hdfs.uri}/{uuid.uuid4().hex}/root %41")


def test_what_is_created_is_read(store: Store) -> None:
    data = bytes(range(256)) * 999
    assert store.create("a/b/file", data)
    assert store.read("a/b/file") == data
    assert store.size("a/b/file") == len(data)
    assert store.read("a/b/file", len(data)) == data
    with pytest.raises(StoreError, match="longer than 255,743 bytes"):
        store.read("a/b/file", len(data) - 1)
    store.write("a/written", data)
    store.sync(["a/written"])
    assert store.read("a/written") == data


def test_what_is_there_is_not_created(store: Store) -> None:
    assert store.create("file", b"one")
    assert not store.create("file", b"other")
    assert store.create("file", b"one")  # as after an answer that was lost
    assert store.read("file") == b"one"
    assert store.create("a/empty", b"")
    assert (store.read("a/empty"), store.size("a/empty")) == (b"", 0)


def test_what_is_not_there(store: Store) -> None:
    assert store.read("a/b") is None
    assert store.size("a/b") is None
    assert not store.rename("a/b", "c")
    assert list(store.list("a")) == []
    assert list(store.list_recursively("a")) == []
    store.delete("a/b")
    assert store.size("c") is None


def test_of_many_who_create_a_file_one_does(store: Store) -> None:
    for attempt in range(5):
        path = f"race/{attempt}"
        with ThreadPoolExecutor(RACERS) as threads:
            mine = [bytes([racer]) * 10_000 for racer in range(RACERS)]
            won = list(threads.map(store.create, [path] * RACERS, mine))
        assert won.count(True) == 1
        assert store.read(path) == mine[won.index(True)]
    store.prove()
    assert list(store.list("_penstock/~creating")) == []


def test_replacing(store: Store) -> None:
    store.replace("a/file", b"one")
    store.replace("a/file", b"other")
    assert store.read("a/file") == b"other"
    assert [entry.name for entry in store.list("a")] == ["file"]


def test_listing(store: Store) -> None:
    for path in ("a/c/2", "a/c/1", "a/b", f"a/{ODD}/f", "other/1"):
        store.replace(path, path.encode())
    entries = store.list("a")
    assert [(entry.path, entry.is_folder) for entry in entries] == [
        ("a/b", False),
        ("a/c", True),
        ("a/dt=2026-11-20", True),
    ]
    assert entries[0].size == 3
    assert entries[0].modified > 1_700_000_000_000
    found = store.list_recursively("a")
    assert [(entry.path, entry.size) for entry in found] == [
        (path, len(path.encode())) for path in ("a/b", "a/c/1", "a/c/2", f"a/{ODD}/f")
    ]
    assert found[-1].name == "f"


def test_renaming(store: Store) -> None:
    store.replace("a/1", b"one")
    assert store.rename("a/1", f"new/{ODD}")
    assert not store.rename("a/1", f"new/{ODD}")
    assert store.read(f"new/{ODD}") == b"one"
    # Nobody uses a name for another file: it is the same one, half moved.
    store.replace("a/1", b"one")
    assert store.rename("a/1", f"new/{ODD}")
    assert store.read(f"new/{ODD}") == b"one"
    assert list(store.list("a")) == []


def test_a_checksum_is_of_the_content_alone(store: Store) -> None:
    store.replace("a/1", b"one" * 1_000_000)
    first = store.checksum("a/1")
    method, _, digits = first.rpartition(":")
    assert method
    assert int(digits, 16) >= 0
    assert store.rename("a/1", f"new/{ODD}")
    assert store.checksum(f"new/{ODD}") == first
    assert store.checksum("a/1") == ""
    store.replace(f"new/{ODD}", b"one" * 999_999 + b"two")
    assert store.checksum(f"new/{ODD}") not in {"", first}


def test_a_folder_that_was_taken_away_meanwhile(store: Store) -> None:
    store.replace("a/1", b"one")
    store.replace("a/2", b"two")
    assert store.rename("a/1", "new/x/1")
    store.delete("new")
    assert store.rename("a/2", "new/x/2")
    assert store.read("new/x/2") == b"two"


def test_deleting(store: Store) -> None:
    for path in ("a/b/1", "a/b/2", "a/c"):
        store.replace(path, b"")
    store.sync(["a/b/1", "a/b", "a/b/7", "c/d"])  # what is there
    assert list(store.list("c")) == []
    store.delete("a/b")
    store.delete("a/b")
    assert [entry.path for entry in store.list_recursively("a")] == ["a/c"]
    store.delete("a/c")
    assert list(store.list("a")) == []


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "a/b\n"])
def test_paths_stay_below_the_root(path: str) -> None:
    store = LocalStore("file:///nowhere")
    with pytest.raises(StoreError, match="not a path below the root"):
        store.replace(path, b"")


def test_errors_are_one_line(store: Store) -> None:
    store.replace("a/b", b"")
    for act in (
        lambda: store.replace("a/b/c", b""),
        lambda: store.create("a/b/c", b""),
        lambda: store.read("a"),
    ):
        with pytest.raises(StoreError) as caught:
            act()
        assert "a" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("root", "folder"),
    [
        ("file:///a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a b%20c", "/a b%20c"),
        ("file:////a//b", "/a/b"),
    ],
)
def test_roots(root: str, folder: str) -> None:
    assert LocalStore(root).root == f"file://{folder}"
    assert LocalStore(root).uri("x/y") == f"file://{folder}/x/y"


@pytest.mark.parametrize("root", ["file://host/a", "file:a/b", "hdfs://a/b", "/a/b"])
def test_what_is_no_local_root(root: str) -> None:
    with pytest.raises(StoreError):
        LocalStore(root)


def test_others_may_read_what_is_created(tmp_path: Path) -> None:
    LocalStore(f"file://{tmp_path}").create("a", b"")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask


def test_several_may_delete_the_same(tmp_path: Path) -> None:
    store = LocalStore(f"file://{tmp_path}")

    def deleted() -> bool:
        store.delete("a")
        return not (tmp_path / "a").exists()

    with ThreadPoolExecutor(4) as threads:
        for _ in range(3):
            for name in range(300):
                (tmp_path / f"a/{name % 30}").mkdir(parents=True, exist_ok=True)
                (tmp_path / f"a/{name % 30}/{name}").touch()
            for is_gone in [threads.submit(deleted) for _ in range(4)]:
                assert is_gone.result()


def test_what_a_file_system_cannot_do_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError):  # nothing can be created there at all
        LocalStore("file:///proc/penstock").prove()
    (tmp_path / "a").write_bytes(b"")
    store = LocalStore(f"file://{tmp_path}")
    with pytest.raises(StoreError, match="cannot create a/b: "):
        store.create("a/b", b"")
    # Python has no way to say which pages are on a disk; but what cannot be is an error.
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(StoreError, match="cannot sync files: Invalid argument"):
        store.sync(["zero"])


class Interrupted:
    """A FileSystem; before the call with this number, something else is done."""

    def __init__(self, raw_files: Any, number: int, act: Callable[[], None]) -> None:
        self._files = raw_files
        self._number = number
        self._act = act
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        if self.calls == self._number:
            self._act()
        self.calls += 1
        return getattr(self._files, name)


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> Any:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return gateway.jvm


@pytest.fixture(scope="module")
def raw_files(spark: SparkSession, jvm: Any) -> Any:
    found = jvm.org.apache.hadoop.fs.RawLocalFileSystem()
    found.initialize(jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration())
    return found


def hadoop_path(jvm: Any, at: Path) -> Any:
    return jvm.org.apache.hadoop.fs.Path(f"file://{at}")


def move(jvm: Any, source: Path, target: Path, raw_files: Any) -> None:
    """Unless the source is gone."""
    try:
        ConditionalCreation(raw_files, None).move(
            hadoop_path(jvm, source), hadoop_path(jvm, target)
        )
    except Py4JJavaError as error:
        if "FileNotFoundException" not in str(error):
            raise


def test_a_file_is_moved_once_whoever_does_it_too(jvm: Any, raw_files: Any, tmp_path: Path) -> None:
    """Another moves it before any call of this one: never are both of them gone."""
    number = 0
    while True:
        source, target = tmp_path / f"{number}-source", tmp_path / f"{number}-target"
        source.write_bytes(b"rows")

        moved = partial(move, jvm, source, target)
        slow = Interrupted(raw_files, number, partial(moved, raw_files))
        moved(slow)
        assert (source.exists(), target.read_bytes()) == (False, b"rows"), number
        if slow.calls <= number:
            break
        number += 1
    assert number > 2


def test_a_copy_whose_original_was_left_is_kept(jvm: Any, raw_files: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"rows")
    target.write_bytes(b"rows")
    inode = target.stat().st_ino
    move(jvm, source, target, raw_files)
    assert not source.exists()
    assert target.stat().st_ino == inode


def test_what_is_another_file_is_not_touched(jvm: Any, raw_files: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"rows")
    target.write_bytes(b"others")
    with pytest.raises(StoreError, match="target already exists with 6 bytes, not 4"):
        move(jvm, source, target, raw_files)
    assert (source.read_bytes(), target.read_bytes()) == (b"rows", b"others")
