"""The file of a journal input: torn by kills, with holes, without room, copied."""

from pathlib import Path

import pytest

from agent.encoding.lines.journal_lines import line_of
from agent.system_journal.spool import (
    Spool,
    SpoolState,
    has_holes,
    read_state,
    write_state,
)
from tests.agent.full_disk import no_file_beyond

MEGABYTE = 1024 * 1024


def line(number: int, message: bytes = b"m") -> bytes:
    cursor = b"s=%d" % number
    return line_of(message, {}, micros=number, stream=b"", cursor=cursor, is_cut=False)


def spool_of(path: Path, *, punched: int = 0) -> Spool:
    return Spool(path, punched, MEGABYTE)


@pytest.mark.parametrize("kept", [0, 1, len(line(2)) - 1, len(line(2))])
def test_a_torn_line_is_completed(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "entries"
    path.write_bytes(line(1) + line(2)[:kept])
    spool = spool_of(path)
    is_whole = kept == len(line(2))
    assert spool.last_cursor == (b"s=2" if is_whole else b"s=1")
    rest = line(3) if is_whole else line(2) + line(3)
    assert spool.append(rest) == len(rest)
    assert path.read_bytes() == line(1) + line(2) + line(3)
    spool.close()


def test_a_torn_line_that_is_not_made_again_stays_alone(tmp_path: Path) -> None:
    path = tmp_path / "entries"
    path.write_bytes(line(1)[:-5])
    spool = spool_of(path)
    assert spool.last_cursor == b""
    spool.append(line(2))
    assert path.read_bytes() == line(1)[:-5] + b"\n" + line(2)
    spool.close()


def test_what_was_shipped_becomes_a_hole(tmp_path: Path) -> None:
    assert has_holes(tmp_path)
    path = tmp_path / "entries"
    data = line(1, b"x" * MEGABYTE) * 16
    path.write_bytes(data)
    spool = spool_of(path)
    position = 12 * MEGABYTE
    assert spool.give_back(position)
    assert not spool.give_back(position + MEGABYTE)
    assert spool.last_cursor == b"s=1"
    spool.close()
    found = path.read_bytes()
    assert len(found) == len(data)
    assert found[: 64 * 1024] == data[: 64 * 1024]
    assert found[position - MEGABYTE :] == data[position - MEGABYTE :]
    assert path.stat().st_blocks * 512 < 8 * MEGABYTE
    again = spool_of(path, punched=spool.punched)
    assert not again.give_back(position)
    again.close()


def test_a_full_disk(tmp_path: Path) -> None:
    """What a write took is not written again."""
    path = tmp_path / "entries"
    spool = spool_of(path)
    pending = bytearray(line(1) + line(2))
    with no_file_beyond(len(line(1)) + 10):
        del pending[: spool.append(pending)]
        with pytest.raises(OSError, match="File too large"):
            spool.append(pending)
    assert pending == line(2)[10:]
    spool.append(pending)
    assert path.read_bytes() == line(1) + line(2)
    spool.close()


def test_the_state(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert read_state(path) == SpoolState()
    state = SpoolState("s=1", 7, 100, {"": 1, "ab": 2}, 4096)
    write_state(path, state)
    assert read_state(path) == state
    path.write_bytes(b"{")
    assert read_state(path) == SpoolState()
