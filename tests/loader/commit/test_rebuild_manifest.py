"""The manifest of a run that replaces hours."""

import msgspec
import pytest

from loader.commit.next_state import Terms, rebuild_manifest
from loader.commit.sources import LandedSources
from loader.commit.staging import Staged, StagedFile
from loader.errors import GapError, Mismatch, TooManyDead
from loader.landing.pieces import FileKind
from loader.manifests import HourState, KnownSources, Manifest, Marker, RunKind
from loader.planning.plan import Plan
from loader.reports import Account, LandedWindow, SliceReport, SourceRun
from loader.tables import Hour, Slice, hour_folder
from tests.loader.hours.manifests import hour, manifest, path

STAGING = "_penstock/logs/staging/run-6-t/pieces"
NOW = hour(5) + 7
BEFORE = manifest(
    {
        hour(0): HourState(rows=30, files=("a", "b"), bytes=600, complete=4, late_rows=3),
        hour(1): HourState(rows=5, files=("c",), bytes=50, incomplete="agents on web-1"),
        hour(2): HourState(rows=7, files=("d",), bytes=70, complete=3),
        hour(3): HourState(rows=0, files=(), complete=3),
    }
)
PIECE = Slice(number=0, topic="logs", topic_id="1", cluster="dc1", partition=0, first=10, end=100)
PLAN = Plan(slices=(PIECE,), ranges=(), topics=BEFORE.topics)


def report(rows: dict[Hour, int], dead: int = 0) -> SliceReport:
    windows = [LandedWindow(start=each, rows=count) for each, count in rows.items()]
    if dead:
        windows.append(LandedWindow(start=hour(0) + 60_000, dead=dead))
    account = Account(
        leader_epoch=3,
        first=10,
        next_offset=100,
        rows=sum(rows.values()),
        dead=dead,
        other_hours=88 - sum(rows.values()) - dead,
        compacted=2,
        windows=tuple(windows),
    )
    return SliceReport(
        slice=0,
        topic="logs",
        partition=0,
        first=10,
        next_offset=100,
        begins=10,
        leader_epoch=3,
        batches=1,
        bytes=1,
        accounts=(account,),
        rows=rows,
        sources=(SourceRun(source="s", intervals=((5, 12),), leader_epoch=3),),
        dead={"why": dead} if dead else {},
    )


def staged(rows: dict[Hour, int], dead: int = 0) -> Staged:
    files = [
        StagedFile(FileKind.ROWS, 0, each, f"{STAGING}/rows/{each}", 10, rows=count)
        for each, count in rows.items()
    ]
    if dead:
        files.append(StagedFile(FileKind.DEAD, 0, None, f"{STAGING}/dead", 10, rows=dead))
    sources = LandedSources()
    sources.add(report(rows, dead))
    return Staged({0: report(rows, dead)}, tuple(files), sources)


def rows_of(left: Staged) -> set[Hour]:
    return {each for report in left.reports.values() for each in report.rows}


def rebuilt(
    left: Staged, *hours: Hour, accept_gap: bool = True, **markers: tuple[str, ...]
) -> Manifest:
    return rebuild_manifest(
        BEFORE,
        PLAN,
        left,
        hours,
        Terms(
            now=NOW,
            loader="me",
            schema="new",
            dead_share=0.5,
            few_dead=0,
            duplicate_share=0.5,
            forget_after=1_000_000,
        ),
        markers={hour(int(key[1:])): names for key, names in markers.items()},
        accept_gap=accept_gap,
    )


def test_an_hours_files_are_replaced_and_the_others_stay() -> None:
    after = rebuilt(staged({hour(0): 29}), hour(0))
    new = path(0, "part-dc1-0-10-100-6.parquet")
    assert after.removes == ("a", "b")
    assert [(each.path, each.rows) for each in after.adds] == [(new, 29)]
    assert after.hours == BEFORE.hours | {
        hour(0): HourState(rows=29, files=(new,), bytes=10, changed=6, at=NOW)
    }
    assert (after.run, after.kind, after.rebuilt) == (6, RunKind.REBUILD, (hour(0),))


def test_the_hour_is_open_again_and_its_markers_go() -> None:
    after = rebuilt(
        staged({hour(0): 29, hour(1): 4}),
        hour(1),
        hour(0),
        h0=("part-x", "_SUCCESS", "_LATE-5", "_LATE-4"),
        h1=("_INCOMPLETE", "_notes"),
    )
    assert after.markers == tuple(
        Marker(path=each)
        for each in (
            path(0, "_LATE-4"),
            path(0, "_LATE-5"),
            path(0, "_SUCCESS"),
            path(1, "_INCOMPLETE"),
        )
    )
    assert [after.hours[hour(at)].complete for at in range(3)] == [-1, -1, 3]
    assert after.hours[hour(1)].incomplete == ""
    assert after.rebuilt == (hour(0), hour(1))


def test_an_hour_that_still_has_no_rows_is_to_be_closed() -> None:
    after = rebuilt(staged({hour(0): 29}), hour(0), hour(3), h3=("_SUCCESS",))
    assert after.hours[hour(3)] == HourState(rows=0, files=(), changed=6, at=NOW)
    assert after.markers == (Marker(path=path(3, "_SUCCESS")),)


def test_hours_of_which_nothing_came_back_are_never_replaced() -> None:
    for came in (staged({hour(0): 30}), staged({hour(0): 29}, dead=3), staged({})):
        emptied = [each for each in range(3) if hour(each) not in rows_of(came)]
        with pytest.raises(GapError, match="none of them could be read again") as caught:
            rebuilt(came, *map(hour, range(4)))
        said = str(caught.value).partition(": ")[0]
        assert said == ", ".join(f"logs/{hour_folder(hour(each))}" for each in emptied)


def test_an_hour_can_be_new() -> None:
    after = rebuilt(staged({hour(4): 1}), hour(4))
    assert after.hours[hour(4)].rows == 1
    assert after.removes == ()


def test_what_was_read_and_landed_stays_as_it_is() -> None:
    after = rebuilt(staged({hour(0): 29}), hour(0))
    (partition,) = after.topics[0].partitions
    assert (partition.next_offset, partition.from_offset, partition.skipped) == (100, -1, 0)
    assert after.sources == (
        KnownSources(topic="logs", partition=0, loaded=hour(5), landed={"s": 13}),
    )
    assert (after.ledger_seq, after.schema) == (10, "new")


def test_the_ledger_hears_what_was_read_of_these_hours_and_nothing_is_late() -> None:
    (passage,) = rebuilt(staged({hour(0): 29}), hour(0)).passages
    assert (passage.first, passage.next_offset, passage.late) == (10, 100, {})
    assert [(each.start, each.rows) for each in passage.windows] == [(hour(0), 29)]


def test_dead_letters_are_no_rows() -> None:
    after = rebuilt(staged({hour(0): 29}, dead=3), hour(0))
    assert after.dead == {"why": 3}
    assert after.hours[hour(0)].rows == 29
    assert after.hours.keys() == BEFORE.hours.keys()
    assert [each.path for each in after.adds if each.path.startswith("_dead/")] == [
        f"_dead/logs/{hour_folder(hour(5))}/part-dc1-0-10-100-6.parquet"
    ]
    with pytest.raises(TooManyDead):
        rebuilt(staged({hour(0): 2}, dead=3), hour(0))


def test_an_hour_of_which_less_comes_back_is_not_replaced_unless_that_is_accepted() -> None:
    for came in (staged({hour(0): 30}), staged({hour(0): 27}, dead=3)):
        assert rebuilt(came, hour(0), accept_gap=False).run == 6
    for less in (staged({hour(0): 29}), staged({hour(0): 26}, dead=3), staged({})):
        with pytest.raises(GapError, match="--accept-gap"):
            rebuilt(less, hour(0), accept_gap=False)


def test_rows_of_other_hours_are_not_taken() -> None:
    with pytest.raises(Mismatch):
        rebuilt(staged({hour(0): 29, hour(2): 1}), hour(0))


def test_what_was_planned_must_be_there() -> None:
    with pytest.raises(Mismatch):
        rebuilt(Staged({0: report({hour(0): 29})}, ()), hour(0))


def test_it_can_be_written_and_read() -> None:
    after = rebuilt(staged({hour(0): 29}), hour(0))
    assert msgspec.json.decode(msgspec.json.encode(after), type=Manifest) == after
