"""Indexes that are missing, cut short, overwritten or too long: never trusted over the log."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.storage.errors import CorruptLog
from tests.broker.storage.log_files import (
    NOW,
    append,
    batch,
    checkpoint,
    create,
    flush,
    log_file,
    names,
    offsets,
    overwrite,
    positions,
    read_on,
    reopen,
)


def _missing(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _odd(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _shorter(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 24 * 2])


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(len(path.read_bytes())))


def _garbage(path: Path) -> None:
    path.write_bytes(os.urandom(len(path.read_bytes())))


def _misleading_garbage(path: Path) -> None:
    """What a search in it comes to is a batch that is there, and not the one that is looked for."""
    path.write_bytes(random.Random(151).randbytes(len(path.read_bytes())))


def _too_long(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\x7f" * 24)


def _shifted(path: Path) -> None:
    """Every offset is a little lower than that of the batch it stands for."""
    content = bytearray(path.read_bytes())
    first, step = (0, 8) if path.suffix == ".index" else (8, 12)
    for at in range(first, len(content), step):
        content[at : at + 4] = max(int.from_bytes(content[at : at + 4]) - 9, 0).to_bytes(4)
    path.write_bytes(content)


DAMAGES = [_shifted, _missing, _empty, _odd, _shorter, _zeros, _garbage, _too_long]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crash"])
@pytest.mark.parametrize("damage", [*DAMAGES, _misleading_garbage])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_is_never_trusted_over_the_log(
    tmp_path: Path, suffix: str, damage: Callable[[Path], None], clean: bool
) -> None:
    log = create(tmp_path, segment_bytes=15_000, index_interval_bytes=200)
    for number in range(300):
        append(log, batch(3, timestamps=[NOW + number] * 3))
    log.close()
    bases = names(log, ".log")
    assert len(bases) == 3
    for base in bases:
        damage(log_file(log, base, suffix))
    again = reopen(log, recovery_point=900, clean=clean)
    assert again.end_offset == 900
    for offset in range(0, 900, 7):
        header, _ = next(read_on(again, offset, 1000))
        assert header.base_offset == offset // 3 * 3
    assert offsets(again) == list(range(0, 900, 3))
    latest = again.latest_timestamp()
    assert latest is not None
    assert latest.offset == 897
    append(again, batch(3))
    again.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_indexes_behind_the_recovery_point_are_made_again(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    log = create(tmp_path, segment_bytes=15_000, index_interval_bytes=200)
    for number in range(100):
        append(log, batch(3, timestamps=[NOW + number] * 3))
    checkpoint(log)
    for number in range(100, 300):
        append(log, batch(3, timestamps=[NOW + number] * 3))
    flush(log)
    log.close()
    expected = {
        path.name: path.read_bytes() for path in log.directory.iterdir() if "index" in path.name
    }
    for name in expected:
        damage(log.directory / name)
    again = reopen(log, recovery_point=300)
    again.close()
    for name, content in expected.items():
        assert (log.directory / name).read_bytes() == content


def test_an_index_cannot_be_made_from_a_log_that_went_bad(tmp_path: Path) -> None:
    log = create(tmp_path, index_interval_bytes=200)
    for _ in range(100):
        append(log, batch(3))
    checkpoint(log)
    size = log.size
    _garbage(log_file(log, 0, ".index"))
    overwrite(log_file(log), positions(log)[60], b"damage of a header")
    for _ in range(2):
        with pytest.raises(CorruptLog, match=f"byte {positions(log)[60]} "):
            next(read_on(log, 270))
    assert log.offline == ""
    assert log.size == size
    assert append(log, batch(3)).base_offset == 300
    assert log_file(log).stat().st_size == log.size > size


def test_an_index_that_goes_bad_while_it_is_used_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = create(tmp_path, segment_bytes=15_000, index_interval_bytes=200)
    for _ in range(300):
        append(log, batch(3))
    flush(log)
    for base in names(log, ".log"):
        _garbage(log_file(log, base, ".index"))
    assert offsets(log) == list(range(0, 900, 3))
    assert "rebuilding index" in caplog.text
    caplog.clear()
    assert [next(read_on(log, offset))[0].base_offset for offset in range(0, 900, 10)]
    assert "rebuilding index" not in caplog.text
    os.truncate(log_file(log, 0, ".index"), 0)
    assert next(read_on(log, 100))[0].base_offset == 99
