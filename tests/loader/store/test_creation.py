"""How files are moved where a rename is a copy and a deletion, as on S3: any two may do it at once.

On Hadoop's own local file system, whose `rename` answers as it likes.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from loader.errors import StoreError
from loader.store.hadoop import ConditionalCreation


class Interrupted:
    """A FileSystem; before the call with this number, something else is done."""

    def __init__(self, files: Any, number: int, act: Callable[[], None]) -> None:
        self._files = files
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
def files(spark: SparkSession, jvm: Any) -> Any:
    found = jvm.org.apache.hadoop.fs.RawLocalFileSystem()
    found.initialize(jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration())
    return found


def path(jvm: Any, at: Path) -> Any:
    return jvm.org.apache.hadoop.fs.Path(f"file://{at}")


def move(jvm: Any, source: Path, target: Path, files: Any) -> None:
    """Unless the source is gone."""
    try:
        ConditionalCreation(files, None).move(path(jvm, source), path(jvm, target))
    except Py4JJavaError as error:
        if "FileNotFoundException" not in str(error):
            raise


def test_a_file_is_moved_once_whoever_does_it_too(jvm: Any, files: Any, tmp_path: Path) -> None:
    """Another moves it before any call of this one: never are both of them gone."""
    number = 0
    while True:
        source, target = tmp_path / f"{number}-source", tmp_path / f"{number}-target"
        source.write_bytes(b"rows")

        moved = partial(move, jvm, source, target)
        slow = Interrupted(files, number, partial(moved, files))
        moved(slow)
        assert (source.exists(), target.read_bytes()) == (False, b"rows"), number
        if slow.calls <= number:
            break
        number += 1
    assert number > 2


def test_a_copy_whose_original_was_left_is_kept(jvm: Any, files: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"rows")
    target.write_bytes(b"rows")
    inode = target.stat().st_ino
    move(jvm, source, target, files)
    assert not source.exists()
    assert target.stat().st_ino == inode


def test_what_is_another_file_is_not_touched(jvm: Any, files: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"rows")
    target.write_bytes(b"others")
    with pytest.raises(StoreError, match="target is there already, of 6 bytes, not 4"):
        move(jvm, source, target, files)
    assert (source.read_bytes(), target.read_bytes()) == (b"rows", b"others")
