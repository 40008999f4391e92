"""A file that is whole whenever it is there."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.cli.failures import Failed
from penstock.topics.avro_files.new_file import NewFile


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_it_is_there_from_when_it_is_published(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    with NewFile(path, overwrite=False) as file:
        file.write(b"one")
        assert not path.exists()
        file.publish()
        assert path.read_bytes() == b"one"
        assert names(tmp_path) == ["a.avro"]
        file.write(b"two")
        assert path.read_bytes() == b"onetwo"
        file.publish()
    assert path.read_bytes() == b"onetwo"


def test_what_is_not_published_is_gone(tmp_path: Path) -> None:
    with NewFile(tmp_path / "a.avro", overwrite=False) as file:
        file.write(b"one")
        (beside,) = names(tmp_path)
        assert beside.startswith("a.avro.")
        assert beside.endswith(".partial")
    assert names(tmp_path) == []


def test_of_two_the_first_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    with NewFile(path, overwrite=False) as first, NewFile(path, overwrite=False) as second:
        first.write(b"first")
        second.write(b"second")
        first.publish()
        with pytest.raises(Failed, match="exists; --overwrite"):
            second.publish()
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["a.avro"]


def test_overwriting_replaces_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(b"old")
    with NewFile(path, overwrite=True) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
        file.publish()
    assert path.read_bytes() == b"new"


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A write beyond that takes what fits, and then fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_what_does_not_fit_is_cut_off_again(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    with NewFile(path, overwrite=False) as file:
        file.write(b"one")
        file.publish()
        with files_of_at_most(5), pytest.raises(Failed, match=r"a\.avro: File too large"):
            file.write(b"two and more")
        assert path.read_bytes() == b"one"
        file.write(b"two")
    assert path.read_bytes() == b"onetwo"
