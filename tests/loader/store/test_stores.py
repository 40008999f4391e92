"""What every store promises, on the file system mounted here, on a real HDFS and, in long tests, on
S3; and how files are moved on S3, where a rename is a copy and a deletion: any two may do it at
once."""

import os
import stat
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from harness.hadoop.hdfs import RunningHdfs
from harness.hadoop.s3 import RunningS3
from harness.processes.waiting import wait_until
from loader.errors import StoreError
from loader.store.hadoop import MOST_TOGETHER, ConditionalCreation, HadoopStore
from loader.store.local import LocalStore
from loader.store.store import Store
from tests.loader.store.hadoop_stores import hadoop_store

RACERS = 8
ODD = "dt=2026-11-20/hour=07/a b%20c;{d} é"


@pytest.fixture
def s3_store(spark: SparkSession, s3: RunningS3) -> HadoopStore:
    return hadoop_store(spark, {}, f"{s3.uri}/{uuid.uuid4().hex}/root %41")


@pytest.fixture(params=["file", "hdfs", pytest.param("s3a", marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "file":
        return LocalStore(f"file://{tmp_path}/root %41")
    if request.param == "s3a":
        s3: HadoopStore = request.getfixturevalue("s3_store")
        return s3
    spark: SparkSession = request.getfixturevalue("spark")
    hdfs: RunningHdfs = request.getfixturevalue("hdfs")
    return hadoop_store(spark, hdfs.configuration, f"{hdfs.uri}/{uuid.uuid4().hex}/root %41")


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
    assert [entry.size for entry in store.prove()] == [1]
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


def test_hdfs_lists_a_level_of_folders_with_one_call(
    spark: SparkSession, hdfs: RunningHdfs
) -> None:
    store = hadoop_store(spark, hdfs.configuration, f"{hdfs.uri}/{uuid.uuid4().hex}")
    paths = [f"a/{day}/{hour:02}/f" for day in range(2) for hour in range(24)]
    for path in paths:
        store.write(path, b"")
    before = counted_calls(store, hdfs)
    assert [entry.path for entry in store.list_recursively("a")] == paths
    calls = counted_calls(store, hdfs) - before
    assert (calls["GetBatchedListing"], calls["GetListing"]) == (3, 0)


def test_hdfs_may_refuse_to_list_folders_together(spark: SparkSession, hdfs: RunningHdfs) -> None:
    """As a NameNode before Hadoop 3.3 does, and one that is asked for too many."""
    root = f"{hdfs.uri}/{uuid.uuid4().hex}"
    store = hadoop_store(spark, hdfs.configuration, root, most_together=MOST_TOGETHER + 1)
    paths = [f"a/{number:03}/f" for number in range(MOST_TOGETHER + 1)]
    for path in paths:
        store.write(path, b"")
    before = counted_calls(store, hdfs)
    for _ in range(2):
        assert [entry.path for entry in store.list_recursively("a")] == paths
    calls = counted_calls(store, hdfs) - before
    assert calls["GetListing"] == 2 * (1 + len(paths))


def test_folders_of_a_mount_are_listed(spark: SparkSession, hdfs: RunningHdfs) -> None:
    """viewfs passes on that HDFS lists folders together, and cannot do it."""
    below = f"{hdfs.uri}/{uuid.uuid4().hex}"
    hadoop_store(spark, hdfs.configuration, below).write("logs/a/b/f", b"")
    mount = {"fs.viewfs.mounttable.test.link./mount": below}
    store = hadoop_store(spark, {**hdfs.configuration, **mount}, "viewfs://test/mount/logs")
    assert [entry.path for entry in store.list_recursively("a")] == ["a/b/f"]


def counted_calls(store: Store, hdfs: RunningHdfs) -> Counter[str]:
    """The NameNode's counts, which it remembers for a second, once they include a call of now."""
    looks = hdfs.namenode.calls()["GetFileInfo"]
    store.size("missing")
    wait_until(
        lambda: hdfs.namenode.calls()["GetFileInfo"] > looks, within=60, what="counts of now"
    )
    return hdfs.namenode.calls()


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
    if store.uri("a").startswith("s3a:"):
        assert first == ""  # S3A tells none
        return
    method, _, digits = first.rpartition(":")
    assert method
    assert int(digits, 16) >= 0
    assert store.rename("a/1", f"new/{ODD}")
    assert store.checksum(f"new/{ODD}") == first
    assert store.checksum("a/1") == ""
    store.replace(f"new/{ODD}", b"one" * 999_999 + b"two")
    assert store.checksum(f"new/{ODD}") not in {"", first}


def test_a_digest_is_the_sha_256_of_the_content(store: Store) -> None:
    content = b"one" * 1_000_000
    store.replace("a/1", content)
    assert store.digest("a/1") == sha256(content).digest()
    with pytest.raises(StoreError, match="a/2"):
        store.digest("a/2")


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
    store.delete_files([])
    store.replace("a/d", b"")
    store.delete_files(["a/c", "b/1", "a/d"])
    assert list(store.list("a")) == []


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", "a/b\n"])
def test_paths_stay_below_the_root(path: str) -> None:
    store = LocalStore("file:///nowhere")
    with pytest.raises(StoreError, match="not a path below the root"):
        store.replace(path, b"")


def test_errors_are_one_line(store: Store) -> None:
    store.replace("a/b", b"")
    if store.uri("a").startswith("s3a:"):  # there are no folders, only names
        assert store.read("a") is None
        return
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


@pytest.mark.parametrize(("folder", "words"), [("", "not set"), ("/etc/hadoop", "/etc/hadoop")])
def test_an_unknown_name_may_be_in_a_configuration_that_was_not_found(
    folder: str, words: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", folder)
    gateway = spark.sparkContext._gateway
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    with pytest.raises(StoreError, match=rf"nameservice1.* \(HADOOP_CONF_DIR is {words}: "):
        HadoopStore("hdfs://nameservice1/logs", gateway, configuration)


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


def move(store: HadoopStore, source: str, target: str, files: Any) -> None:
    """Unless the source is gone."""
    try:
        ConditionalCreation(files, None).move(store._at(source), store._at(target))
    except Py4JJavaError as error:
        if "FileNotFoundException" not in str(error):
            raise


@pytest.mark.long
def test_a_file_is_moved_once_whoever_does_it_too(s3_store: HadoopStore) -> None:
    """Another moves it before any call of this one: never are both of them gone."""
    number = 0
    while True:
        source, target = f"{number}-source", f"{number}-target"
        s3_store.write(source, b"rows")
        moved = partial(move, s3_store, source, target)
        slow = Interrupted(s3_store._files, number, partial(moved, s3_store._files))
        moved(slow)
        assert (s3_store.size(source), s3_store.read(target)) == (None, b"rows"), number
        if slow.calls <= number:
            break
        number += 1
    assert number > 0


@pytest.mark.long
@pytest.mark.parametrize("copied", [b"rows", b"others"], ids=["copied", "another file"])
def test_a_move_that_was_interrupted(copied: bytes, s3_store: HadoopStore) -> None:
    """Between the copy and the deletion; what is another file is not touched."""
    s3_store.write("source", b"rows")
    s3_store.write("target", copied)
    if copied == b"rows":
        assert s3_store.rename("source", "target")
        assert s3_store.size("source") is None
    else:
        with pytest.raises(StoreError, match="target already exists with 6 bytes, not 4"):
            s3_store.rename("source", "target")
        assert s3_store.read("source") == b"rows"
    assert s3_store.read("target") == copied


@pytest.mark.long
def test_s3_without_conditions_is_refused(spark: SparkSession, s3: RunningS3) -> None:
    off = {"fs.s3a.create.conditional.enabled": "false", "fs.s3a.impl.disable.cache": "true"}
    with pytest.raises(StoreError, match="S3 requires conditional creation"):
        hadoop_store(spark, off, f"{s3.uri}/{uuid.uuid4().hex}").prove()
