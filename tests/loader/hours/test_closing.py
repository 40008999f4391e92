"""What is done with hours that are over, and the manifest of a run that closes them."""

import json

import msgspec
import pytest

from ground.intervals import Intervals
from loader.commit.complete_hours import hours_after
from loader.commit.old_hours import REMEMBERED_MILLIS
from loader.config import CompletenessConfig
from loader.hours.closing import (
    Closing,
    close_manifest,
    files_left,
    gone_files,
    open_hours,
    to_close,
    with_remaining,
)
from loader.hours.completeness import Complete, Waiting
from loader.values.manifests import HourState, Manifest, Marker, RunKind
from loader.values.rewrites import Rewrite, Rewritten, RewrittenFile
from loader.values.tables import HOUR_MILLIS, Hour, hour_folder
from tests.loader.hours.manifests import hour, manifest, path

CONFIG = CompletenessConfig(deadline=6 * 3600.0)
OPEN = HourState(rows=1, files=("f",))
CLOSED = HourState(rows=1, files=("f",), complete=3)
WAITING = HourState(rows=1, files=("f",), incomplete="web")
END = hour(0) + HOUR_MILLIS
DEADLINE = END + 6 * HOUR_MILLIS


def test_hours_that_are_over_and_not_complete_are_open() -> None:
    hours = {hour(2): OPEN, hour(1): OPEN, hour(0): CLOSED, hour(3): OPEN}
    assert open_hours(manifest(hours), hour(3)) == (hour(1), hour(2))
    assert open_hours(manifest(hours), hour(3) - 1) == (hour(1),)
    assert open_hours(None, hour(9)) == ()


def test_hours_without_rows_are_open_too() -> None:
    """Since the table's first, and of the last two days."""
    hours = {hour(0): CLOSED, hour(2): OPEN}
    assert open_hours(manifest(hours), hour(4)) == (hour(1), hour(2), hour(3))
    assert open_hours(manifest(hours), hour(4) + HOUR_MILLIS - 1) == (hour(1), hour(2), hour(3))
    late = open_hours(manifest(hours), hour(1000))
    assert late == (hour(2), *(hour(at) for at in range(952, 1000)))
    before = msgspec.structs.replace(manifest({hour(3): OPEN}), complete=ranges((0, 2), (4, 5)))
    assert open_hours(before, hour(7)) == (hour(2), hour(3), hour(5), hour(6))
    assert open_hours(manifest({hour(9): OPEN}), hour(4)) == ()
    assert open_hours(manifest({}), hour(4)) == ()


def test_complete_hours_that_are_over_are_closed() -> None:
    before = manifest({hour(0): OPEN, hour(1): WAITING})
    verdicts = {each: Complete("agents") for each in (hour(1), hour(0))}
    both = (Closing(hour(0), by="agents"), Closing(hour(1), by="agents"))
    assert to_close(before, verdicts, hour(2), CONFIG) == both
    before = manifest({hour(0): CLOSED, hour(1): OPEN})
    verdicts[hour(2)] = Complete("agents")
    assert to_close(before, verdicts, hour(2) - 1, CONFIG) == ()


@pytest.mark.parametrize("known", [{hour(0): OPEN}, {hour(-9): OPEN}], ids=["rows", "no rows"])
def test_an_hour_is_waited_for_until_the_deadline(known: dict[Hour, HourState]) -> None:
    before = manifest(known)
    done = {hour(0): Complete("agents")}
    assert to_close(before, done, END, CONFIG) == (Closing(hour(0), by="agents"),)
    waiting = {hour(0): Waiting("agents on web-1", ("web-1",))}
    assert to_close(before, waiting, DEADLINE - 1, CONFIG) == ()
    missing = Closing(hour(0), missing="agents on web-1", names=("web-1",))
    assert to_close(before, waiting, DEADLINE, CONFIG) == (missing,)


def test_what_is_missing_is_said_again_when_it_changes() -> None:
    before = manifest({hour(0): HourState(rows=1, files=("f",), incomplete="agents on web-1")})
    same, other = Waiting("agents on web-1"), Waiting("agents on web-2")
    assert to_close(before, {hour(0): same}, DEADLINE, CONFIG) == ()
    (again,) = to_close(before, {hour(0): other}, DEADLINE, CONFIG)
    assert again.missing == "agents on web-2"


OPEN_HOURS = manifest(
    {
        hour(0): HourState(rows=30, files=("a", "b", "c"), bytes=600, changed=4, incomplete="web"),
        hour(1): HourState(rows=5, files=("d",), bytes=50),
        hour(2): HourState(rows=7, files=("e", "f"), bytes=70),
    }
)


def ranges(*numbers: tuple[int, int]) -> Intervals:
    return tuple((hour(first), hour(after)) for first, after in numbers)


def closed(
    *closings: Closing, merged: tuple[Rewritten, ...] = (), before: Manifest = OPEN_HOURS
) -> Manifest:
    return close_manifest(before, closings, merged, now=9, loader="me")


def merged(*rows: int, files: tuple[str, ...] = ("a", "b"), number: int = 0) -> Rewritten:
    merge = Rewrite(hour(number), files, 250, len(rows))
    written = (RewrittenFile(f"staged/{at}", each, 100, ".orc") for at, each in enumerate(rows))
    return Rewritten(merge, tuple(written))


def content(marker: Marker) -> dict[str, object]:
    found = json.loads(marker.content)
    assert isinstance(found, dict)
    return found


def test_it_follows_on_the_one_before() -> None:
    after = closed(Closing(hour(1), by="agents"))
    assert (after.run, after.kind, after.table) == (6, RunKind.CLOSE, "logs")
    assert (after.committed, after.loader) == (9, "me")
    assert (after.sources, after.schema) == (OPEN_HOURS.sources, OPEN_HOURS.schema)
    assert (after.ledger_seq, after.ledger_entries) == (10, 0)
    assert (after.passages, after.dead, after.duplicates, after.rebuilt) == ((), {}, 0, ())
    (topic,) = after.topics
    (partition,) = topic.partitions
    assert (partition.next_offset, partition.leader_epoch) == (100, 3)
    assert (partition.from_offset, partition.skipped) == (-1, 0)


def test_a_complete_hour_gets_its_marker() -> None:
    after = closed(Closing(hour(1), by="agents"))
    assert after.hours == OPEN_HOURS.hours | {
        hour(1): HourState(rows=5, files=("d",), bytes=50, complete=6, at=9)
    }
    marker, table = after.markers
    assert (marker.path, table.path) == (path(1, "_SUCCESS"), "logs/_complete_hours.json")
    assert content(marker) == {
        "run": 6,
        "complete_since_run": 6,
        "rows": 5,
        "late_rows": 0,
        "files": 1,
        "bytes": 50,
        "decided_by": "agents",
    }


def test_an_incomplete_hour_says_who_is_missing() -> None:
    after = closed(Closing(hour(1), missing="agents on web-1", names=("web-1",)))
    waiting = HourState(rows=5, files=("d",), bytes=50, incomplete="agents on web-1")
    assert after.hours[hour(1)] == waiting
    (marker,) = after.markers
    assert marker.path == path(1, "_INCOMPLETE")
    said = {"run": 6, "missing": "agents on web-1", "names": ["web-1"], "rows": 5}
    assert content(marker) == said


def test_an_hour_without_rows_is_named_in_the_tables_file_alone() -> None:
    after = closed(Closing(hour(7), by="agents"), Closing(hour(8), missing="agents on web-1"))
    waiting = HourState(rows=0, files=(), incomplete="agents on web-1")
    assert after.hours == OPEN_HOURS.hours | {hour(8): waiting}
    assert after.complete == ranges((7, 8))
    (marker,) = after.markers
    assert content(marker) == {
        "run": 6,
        "complete": [[hour_folder(hour(7)), hour_folder(hour(7))]],
        "incomplete": {hour_folder(hour(8)): "agents on web-1"},
    }
    again = closed(Closing(hour(1), by="agents"), Closing(hour(8), by="agents"), before=after)
    assert again.hours.keys() == OPEN_HOURS.hours.keys()
    assert again.complete == ranges((1, 2), (7, 9))
    assert content(again.markers[-1])["incomplete"] == {}
    assert closed(Closing(hour(2), missing="agents on web-1"), before=again).markers[1:] == ()


def test_hours_without_rows_of_former_builds_become_a_range() -> None:
    """What they lost their files by is remembered; so is what a rebuild opened again."""
    empty = HourState(rows=0, files=(), complete=2)
    taken = msgspec.structs.replace(empty, whole=7)
    before = manifest({hour(0): CLOSED, hour(1): empty, hour(2): OPEN, hour(3): taken})
    before = msgspec.structs.replace(before, complete=ranges((2, 3), (5, 6)))
    after = closed(Closing(hour(4), by="agents"), before=before)
    assert after.hours.keys() == {hour(0), hour(2), hour(3)}
    assert after.complete == ranges((0, 2), (3, 6))
    later = hour(6) + REMEMBERED_MILLIS
    assert hours_after(after, "logs", {}, run=7, now=later).complete == ranges((0, 2), (3, 6))[1:]


def test_merged_files_take_the_place_of_small_ones() -> None:
    after = closed(Closing(hour(0), by="agents"), merged=(merged(10, 5),))
    assert Marker(path=path(0, "_INCOMPLETE")) in after.markers  # it is not any more
    new = (path(0, "part-merged-0000-6.orc"), path(0, "part-merged-0001-6.orc"))
    assert [(each.staged, each.path, each.rows, each.bytes) for each in after.adds] == [
        ("staged/0", new[0], 10, 100),
        ("staged/1", new[1], 5, 100),
    ]
    assert msgspec.json.decode(msgspec.json.encode(after), type=Manifest) == after
    assert after.removes == ("a", "b")
    assert after.hours[hour(0)] == HourState(
        rows=30, files=("c", *new), bytes=550, changed=4, complete=6, at=9, rewritten=6
    )


def test_only_hours_that_become_complete_are_merged() -> None:
    with pytest.raises(ValueError, match="not closed"):
        closed(Closing(hour(1), by="agents"), merged=(merged(1),))


TAKEN_FROM = manifest(
    {
        hour(0): HourState(rows=30, files=("a", "b", "c"), bytes=600, changed=4, incomplete="web"),
        hour(1): HourState(rows=5, files=("d",), bytes=50),
        hour(2): HourState(rows=7, files=("e",), bytes=70),
    }
)
TWO = (hour(0), hour(1))
SIZES = {"a": 100, "c": 200, "of somebody else": 1}


def test_what_is_gone_is_found() -> None:
    assert gone_files(TAKEN_FROM, TWO, SIZES) == {hour(0): ["b"], hour(1): ["d"]}
    assert gone_files(TAKEN_FROM, TWO, {*"abcd"}) == {}


def test_an_hour_has_what_is_left() -> None:
    left = files_left(TAKEN_FROM, gone_files(TAKEN_FROM, TWO, SIZES))
    assert left == {hour(0): ("a", "c"), hour(1): ()}
    after = with_remaining(TAKEN_FROM, left, SIZES, {"a": 3, "c": 4})
    was = HourState(rows=7, files=("a", "c"), bytes=300, changed=4, incomplete="web")
    assert after.hours == {
        hour(0): msgspec.structs.replace(was, whole=30),
        hour(1): HourState(rows=0, files=(), whole=5),
        hour(2): TAKEN_FROM.hours[hour(2)],
    }
    assert after.run == TAKEN_FROM.run
