"""Logs and histories are read back as they were written."""

import struct
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.campaigns.groups import events as of_groups
from tests.campaigns.history import Done, History, Notebook
from tests.campaigns.logs import content_of, name_of, read_replica
from tests.system.crash import value_of
from tests.system.raw import record_batch


def stored(batch_bytes: bytes, *, offset: int, epoch: int) -> bytes:
    """As a broker stamps it."""
    return (
        struct.pack(">q", offset) + batch_bytes[8:12] + struct.pack(">i", epoch) + batch_bytes[16:]
    )


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = record_batch([value_of("w", 0), value_of("w", 1), b"w 2 something else"])
    first = stored(made, offset=0, epoch=3)
    second = stored(record_batch([value_of("w/1", 17)]), offset=3, epoch=4)
    (tmp_path / f"{0:020}.log").write_bytes(first)
    (tmp_path / f"{3:020}.log").write_bytes(second + first[:40])
    replica = read_replica(1, tmp_path)
    places = [(each.first, each.last, each.epoch) for each in replica.batches]
    assert places == [(0, 2, 3), (3, 3, 4)]
    assert b"".join(each.data for each in replica.batches) == first + second
    assert (replica.rest, replica.end) == (40, 4)
    contents = replica.contents()
    assert [contents[0], contents[1], contents[3]] == ["w 0", "w 1", "w/1 17"]
    assert contents[2].startswith("not as made")


def test_a_value_says_whose_it_is() -> None:
    value = value_of("to-1/0", 12)
    assert content_of(value) == name_of("to-1/0", 12) == "to-1/0 12"
    assert content_of(value + b"!").startswith("not as made")
    assert content_of(b"").startswith("not as made")


def test_notebooks_are_read_but_for_a_line_that_was_not_finished(tmp_path: Path) -> None:
    """Because who wrote it was killed."""
    noted: list[Any] = [
        of_groups.Ended(0, 10),
        Done("grow"),
        of_groups.Changed("g", "m", 0, 1, "x"),
    ]
    for name in ("b", "a"):
        notebook = Notebook(tmp_path, name, 0.0)
        for each in noted:
            notebook.note(each)
        notebook.close()
    with (tmp_path / "a.jsonl").open("ab") as file:
        file.write(b'{"type":"Rea')
    found = History.load(tmp_path, of_groups.Event)
    assert [each.at for each in found.events] == sorted(each.at for each in found.events)
    for each in noted:
        assert [one == replace(each, at=one.at) for one in found.of(type(each))] == [True, True]
