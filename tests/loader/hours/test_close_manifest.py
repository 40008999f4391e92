"""The manifest of a run that closes hours."""

import json

import msgspec
import pytest

from loader.errors import Mismatch
from loader.hours.closing import Closing, Merge, Merged, MergedFile, close_manifest
from loader.manifests import HourState, Manifest, Marker, RunKind
from tests.loader.hours.manifests import hour, manifest, path

BEFORE = manifest(
    {
        hour(0): HourState(rows=30, files=("a", "b", "c"), bytes=600, changed=4, incomplete="web"),
        hour(1): HourState(rows=5, files=("d",), bytes=50),
        hour(2): HourState(rows=7, files=("e", "f"), bytes=70),
    }
)


def closed(*closings: Closing, merged: tuple[Merged, ...] = ()) -> Manifest:
    return close_manifest(BEFORE, closings, merged, now=9, loader="me")


def merged(*rows: int, files: tuple[str, ...] = ("a", "b"), number: int = 0) -> Merged:
    merge = Merge(hour(number), files, 250, len(rows))
    written = (MergedFile(f"staged/{at}", each, 100, ".orc") for at, each in enumerate(rows))
    return Merged(merge, tuple(written))


def content(marker: Marker) -> dict[str, object]:
    found = json.loads(marker.content)
    assert isinstance(found, dict)
    return found


def test_it_follows_on_the_one_before() -> None:
    after = closed(Closing(hour(1), by="agents"))
    assert (after.run, after.kind, after.table) == (6, RunKind.CLOSE, "logs")
    assert (after.committed, after.loader) == (9, "me")
    assert (after.sources, after.schema) == (BEFORE.sources, BEFORE.schema)
    assert (after.ledger_seq, after.ledger_entries) == (10, 0)
    assert (after.passages, after.dead, after.duplicates, after.rebuilt) == ((), {}, 0, ())
    (topic,) = after.topics
    (partition,) = topic.partitions
    assert (partition.next_offset, partition.leader_epoch) == (100, 3)
    assert (partition.from_offset, partition.skipped) == (-1, 0)


def test_a_complete_hour_gets_its_marker() -> None:
    after = closed(Closing(hour(1), by="agents"))
    assert after.hours == BEFORE.hours | {
        hour(1): HourState(rows=5, files=("d",), bytes=50, complete=6, at=9)
    }
    (marker,) = after.markers
    assert marker.path == path(1, "_SUCCESS")
    assert content(marker) == {
        "run": 6,
        "complete_since_run": 6,
        "rows": 5,
        "late_rows": 0,
        "files": 1,
        "bytes": 50,
        "decided_by": "agents",
    }


def test_an_hour_that_was_incomplete_is_not_any_more() -> None:
    after = closed(Closing(hour(0), by="agents"))
    assert after.hours[hour(0)].incomplete == ""
    assert Marker(path=path(0, "_INCOMPLETE")) in after.markers


def test_an_incomplete_hour_says_who_is_missing() -> None:
    after = closed(Closing(hour(1), missing="agents on web-1", names=("web-1",)))
    assert after.hours[hour(1)] == HourState(
        rows=5, files=("d",), bytes=50, incomplete="agents on web-1"
    )
    (marker,) = after.markers
    assert marker.path == path(1, "_INCOMPLETE")
    assert content(marker) == {
        "run": 6,
        "missing": "agents on web-1",
        "names": ["web-1"],
        "rows": 5,
    }


def test_an_hour_without_rows_has_markers_too() -> None:
    after = closed(Closing(hour(7), by="agents"), Closing(hour(8), missing="agents on web-1"))
    assert after.hours == BEFORE.hours | {
        hour(7): HourState(rows=0, files=(), complete=6, at=9),
        hour(8): HourState(rows=0, files=(), incomplete="agents on web-1"),
    }
    success, incomplete = after.markers
    assert (success.path, incomplete.path) == (path(7, "_SUCCESS"), path(8, "_INCOMPLETE"))
    assert (content(success)["rows"], content(incomplete)["rows"]) == (0, 0)


def test_merged_files_take_the_place_of_small_ones() -> None:
    after = closed(Closing(hour(0), by="agents"), merged=(merged(10, 5),))
    new = (path(0, "part-merged-0000-6.orc"), path(0, "part-merged-0001-6.orc"))
    assert [(each.staged, each.path, each.rows, each.bytes) for each in after.adds] == [
        ("staged/0", new[0], 10, 100),
        ("staged/1", new[1], 5, 100),
    ]
    assert after.removes == ("a", "b")
    assert after.hours[hour(0)] == HourState(
        rows=30, files=("c", *new), bytes=550, changed=4, complete=6, at=9
    )


@pytest.mark.parametrize(
    "odd",
    [
        merged(31),
        merged(29, files=("a", "b", "c")),
        merged(10, files=("a", "x")),
    ],
)
def test_a_merge_must_leave_all_rows_of_the_hours_own_files(odd: Merged) -> None:
    with pytest.raises(Mismatch):
        closed(Closing(hour(0), by="agents"), merged=(odd,))


def test_only_hours_that_become_complete_are_merged() -> None:
    with pytest.raises(ValueError, match="not closed"):
        closed(Closing(hour(1), by="agents"), merged=(merged(1),))


def test_it_can_be_written_and_read() -> None:
    after = closed(Closing(hour(0), by="agents"), merged=(merged(10, 5),))
    assert msgspec.json.decode(msgspec.json.encode(after), type=Manifest) == after
