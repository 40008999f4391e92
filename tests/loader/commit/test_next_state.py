"""The manifest that follows from what was read, and that of a run that replaces hours."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from client.producing.delivery import TopicPartition
from loader.commit.next_state import load_manifest, next_run, rebuild_manifest
from loader.commit.staging import Staged
from loader.errors import GapError, Mismatch, RowsLost, TooManyDead, TooManyDuplicates
from loader.hours.closing import opened_hours
from loader.planning.plan import Plan
from loader.values.manifests import (
    HourState,
    KnownSources,
    Manifest,
    Marker,
    PartitionState,
    RunKind,
)
from loader.values.replaced_rows import PartitionRows
from loader.values.reports import SliceReport
from loader.values.tables import Hour, Slice, hour_folder, hour_of
from tests.loader.commit.made_up import (
    HOUR,
    NEXT_HOUR,
    NOW,
    left_by,
    manifest,
    piece,
    plan_of,
    report,
    terms,
)
from tests.loader.hours import manifests
from tests.loader.hours.manifests import hour, path

AT = "dt=2026-11-20/hour=00"


def next_after(
    previous: Manifest | None,
    left: Staged,
    *slices: Slice,
    planned: Plan | None = None,
    few_dead: int = 1,
    **more: float,
) -> Manifest:
    known = terms(few_dead=few_dead, **more)
    return load_manifest(previous, planned or plan_of(*slices), left, "t", known)


def test_the_first_run() -> None:
    slices = [piece(0, 0, 10), piece(1, 10, 20), piece(2, 0, 5, partition=7)]
    left = left_by(
        report(slices[0], {HOUR: 10}, sources={"a": ((0, 9),)}),
        report(slices[1], {HOUR: 3, NEXT_HOUR: 9}, next_offset=22, sources={"a": ((10, 21),)}),
        report(slices[2], {}, no_events=5, leader_epoch=-1),
    )
    made = next_after(None, left, *slices)
    assert (made.run, made.kind, made.table, made.committed) == (1, "load", "t", NOW)
    assert [(added.path, added.rows, added.bytes) for added in made.adds] == [
        (f"t/{AT}/part-dc1-0-0-10-1.parquet", 10, 100),
        (f"t/{AT}/part-dc1-0-10-22-1.parquet", 3, 30),
        ("t/dt=2026-11-20/hour=01/part-dc1-0-10-22-1.parquet", 9, 90),
    ]
    assert {added.staged for added in made.adds} == {file.path for file in left.files}
    assert made.hours == {
        HOUR: HourState(
            rows=13,
            files=(f"t/{AT}/part-dc1-0-0-10-1.parquet", f"t/{AT}/part-dc1-0-10-22-1.parquet"),
            bytes=130,
            changed=1,
            at=NOW,
            schema_number=1,
        ),
        NEXT_HOUR: HourState(
            rows=9,
            files=("t/dt=2026-11-20/hour=01/part-dc1-0-10-22-1.parquet",),
            bytes=90,
            changed=1,
            at=NOW,
            schema_number=1,
        ),
    }
    assert made.topics[0].partitions == (
        PartitionState(partition=0, next_offset=22, leader_epoch=3, from_offset=0),
        PartitionState(partition=7, next_offset=5, leader_epoch=-1, from_offset=0),
    )
    assert made.sources == (
        KnownSources(topic="t", partition=0, loaded=hour_of(NOW), landed={"a": 22}),
    )
    assert made.markers == ()
    assert (made.ledger_seq, made.schema) == (0, "columns")
    assert msgspec.json.decode(msgspec.json.encode(made), type=Manifest) == made


def test_passages_say_what_was_read_by_partition() -> None:
    slices = [piece(0, 0, 10), piece(1, 10, 20), piece(2, 4, 9, partition=7)]
    left = left_by(
        report(slices[0], {HOUR: 8}, duplicates=1, dead=1, sources={"a": ((0, 7),)}),
        report(slices[1], {HOUR: 6, NEXT_HOUR: 4}, sources={"b": ((0, 0),), "a": ((9, 9),)}),
        report(slices[2], {HOUR: 2}, no_events=1),
    )
    first, second, third = next_after(None, left, *slices).passages
    assert (first.topic, first.topic_id, first.cluster, first.partition) == ("t", "id", "dc1", 0)
    # What has duplicates is told apart: so it is known where they lay.
    assert (first.first, first.next_offset, first.no_events) == (0, 10, 0)
    assert (second.first, second.next_offset, second.no_events) == (10, 20, 0)
    assert [
        (each.start, each.rows, each.duplicates, each.dead)
        for passage in (first, second)
        for each in passage.windows
    ] == [(HOUR, 8, 1, 1), (HOUR, 6, 0, 0), (NEXT_HOUR, 4, 0, 0)]
    assert (first.windows[0].bytes, first.windows[0].crc_sum) == (100, 7)
    assert (first.sources, second.sources) == ({}, {"a": ((0, 7), (9, 9)), "b": ((0, 0),)})
    # Before its first batch nothing was there: compaction has removed it.
    assert (third.first, third.next_offset, third.no_events) == (4, 9, 3)


def test_slices_of_one_epoch_are_one_passage() -> None:
    slices = [piece(0, 0, 10), piece(1, 10, 20), piece(2, 20, 30)]
    left = left_by(
        report(slices[0], {HOUR: 10}, sources={"a": ((0, 9),)}),
        report(slices[1], {HOUR: 9}, dead=1, sources={"a": ((10, 18),)}),
        report(slices[2], {HOUR: 10}, sources={"a": ((19, 28),)}, leader_epoch=4),
    )
    first, second = next_after(None, left, *slices).passages
    assert (first.first, first.next_offset, first.leader_epoch) == (0, 20, 3)
    assert [(each.start, each.rows, each.dead) for each in first.windows] == [(HOUR, 19, 1)]
    assert (first.windows[0].bytes, first.windows[0].crc_sum) == (200, 14)
    assert (second.first, second.next_offset, second.leader_epoch) == (20, 30, 4)
    assert (first.sources, second.sources) == ({"a": ((0, 18),)}, {"a": ((19, 28),)})


def test_what_was_given_up_is_missing_and_no_event() -> None:
    found = report(piece(0, 0, 10), {HOUR: 6}, no_events=0)
    left = left_by(msgspec.structs.replace(found, gives_up=True))
    made = next_after(None, left, piece(0, 0, 10))
    (passage,) = made.passages
    assert (passage.first, passage.no_events, passage.missing) == (0, 0, ((0, 3),))
    assert made.topics[0].partitions[0].skipped == 4


def test_what_follows_on_a_run() -> None:
    """Partitions that were not read keep their state; so do hours and sources."""
    known = HourState(rows=5, files=("t/x",), bytes=50, changed=1)
    before = msgspec.structs.replace(
        manifest(1, hours={HOUR: known}),
        sources=(KnownSources(topic="t", partition=9, loaded=HOUR, landed={"z": 5}),),
    )
    slices = [piece(0, 10, 20)]
    planned = plan_of(*slices)
    other = PartitionState(partition=9, next_offset=77, leader_epoch=1)
    topic = msgspec.structs.replace(
        planned.topics[0], partitions=(*planned.topics[0].partitions, other)
    )
    left = left_by(report(slices[0], {NEXT_HOUR: 10}, duplicates=0))
    made = next_after(before, left, planned=replace(planned, topics=(topic,)))
    assert made.run == 2
    assert made.hours[HOUR] == known
    assert made.topics[0].partitions[1] == other
    assert made.topics[0].partitions[0].next_offset == 20
    assert made.sources == before.sources
    assert made.ledger_seq == 42
    assert next_run(before) == 2
    assert next_run(None) == 1


def test_rows_of_an_hour_that_was_complete_are_late() -> None:
    done = HourState(rows=5, files=("t/x",), bytes=50, changed=1, complete=1, schema_number=1)
    due = HourState(rows=5, files=("t/y",), bytes=50, changed=1, incomplete="no news of h1")
    before = manifest(3, hours={HOUR: done, NEXT_HOUR: due})
    slices = [piece(0, 10, 20), piece(1, 20, 23)]
    left = left_by(report(slices[0], {HOUR: 4, NEXT_HOUR: 6}), report(slices[1], {HOUR: 3}))
    made = next_after(before, left, *slices)
    assert made.hours[HOUR].late_rows == 7
    assert made.hours[HOUR].complete == 1
    assert made.hours[HOUR].rows == 12
    assert made.hours[NEXT_HOUR].late_rows == 0
    assert made.hours[NEXT_HOUR].incomplete == "no news of h1"
    assert made.passages[0].late == {HOUR: 7}
    late, success = made.markers
    assert (late.path, success.path) == (f"t/{AT}/_LATE-4", f"t/{AT}/_SUCCESS")
    assert json.loads(late.content)["rows"] == 7
    assert len(json.loads(late.content)["files"]) == 2
    assert json.loads(success.content)["rows"] == 12
    assert json.loads(success.content)["complete_since_run"] == 1


@pytest.mark.parametrize("number", [0, 1])
def test_late_rows_with_other_columns_open_their_hour(number: int) -> None:
    """It has one schema again before it gets `_SUCCESS` again. 0: unknown columns."""
    done = HourState(rows=5, files=("t/x",), complete=1, schema_number=number)
    empty = HourState(rows=0, files=(), complete=1)
    before = manifest(3, hours={HOUR: done, NEXT_HOUR: empty})
    slices = [piece(0, 10, 20)]
    left = left_by(report(slices[0], {HOUR: 4, NEXT_HOUR: 6}))
    made = next_after(before, left, *slices, schema_number=2)
    opened, still_complete = made.hours[HOUR], made.hours[NEXT_HOUR]
    assert (opened.complete, opened.late_rows, opened.schema_number) == (-1, 4, 0)
    assert (still_complete.complete, still_complete.schema_number) == (1, 2)
    assert [marker.path for marker in made.markers if not marker.written] == [f"t/{AT}/_SUCCESS"]
    assert opened_hours(before, made) == opened_hours(None, made) == (HOUR,)


def test_dead_letters_lie_apart_in_the_hour_of_the_run() -> None:
    slices = [piece(0, 0, 10)]
    made = next_after(None, left_by(report(slices[0], {HOUR: 7}, dead=3)), *slices)
    assert [(added.path, added.rows) for added in made.adds] == [
        ("_dead/t/dt=2026-11-20/hour=05/part-dc1-0-0-10-1.parquet", 3),
        (f"t/{AT}/part-dc1-0-0-10-1.parquet", 7),
    ]
    assert set(made.hours) == {HOUR}
    assert made.hours[HOUR].rows == 7
    assert made.dead == {"no value": 3}


def test_files_of_one_slice_and_hour_have_names_of_their_own() -> None:
    slices = [piece(0, 0, 10)]
    left = left_by(report(slices[0], {HOUR: 10}))
    file = replace(left.files[0], suffix=".gz.json")
    two = replace(left, files=(replace(file, path="a", rows=4), replace(file, path="b", rows=6)))
    made = next_after(None, two, *slices)
    assert [(added.staged, added.path, added.rows) for added in made.adds] == [
        ("a", f"t/{AT}/part-dc1-0-0-10-1.gz.json", 4),
        ("b", f"t/{AT}/part-dc1-0-0-10-1-2.gz.json", 6),
    ]
    assert made.hours[HOUR].rows == 10


@pytest.mark.parametrize(
    ("dead", "share", "few"), [(5, 0.5, 1), (0, 0.0, 1), (1, 0.1, 1), (1, 0.01, 10), (9, 0.01, 10)]
)
def test_some_may_be_dead_and_a_few_hold_no_quiet_table(dead: int, share: float, few: int) -> None:
    slices = [piece(0, 0, 10)]
    left = left_by(report(slices[0], {HOUR: 10 - dead}, dead=dead))
    made = next_after(None, left, *slices, dead_share=share, few_dead=few)
    assert made.dead == ({"no value": dead} if dead else {})
    if few > 1:
        with pytest.raises(TooManyDead):
            next_after(None, left, *slices, dead_share=share, few_dead=dead)


def test_too_many_dead() -> None:
    slices = [piece(0, 0, 10), piece(1, 10, 1010)]
    left = left_by(
        report(slices[0], {HOUR: 9}, duplicates=1), report(slices[1], {HOUR: 989}, dead=11)
    )
    with pytest.raises(TooManyDead) as caught:
        next_after(None, left, *slices, dead_share=0.01)
    assert str(caught.value) == (
        "table t: 11 of 1,010 records cannot be decoded, more than `dead_share: 0.01` allows;"
        " most frequent reason: no value (as in t-0, offsets 10 to 1009); nothing was committed"
    )


@pytest.mark.parametrize(("duplicates", "share"), [(99, 0.0), (505, 0.5), (1009, 1.0)])
def test_some_may_be_duplicates(duplicates: int, share: float) -> None:
    slices = [piece(0, 0, 1010)]
    left = left_by(report(slices[0], {HOUR: 1010 - duplicates}, duplicates=duplicates))
    assert next_after(None, left, *slices, duplicate_share=share).duplicates == duplicates


def test_too_many_duplicates() -> None:
    slices = [piece(0, 0, 10), piece(1, 10, 1010)]
    several = msgspec.structs.replace(
        report(slices[1], {HOUR: 494}, duplicates=505, dead=1), repeated="shop"
    )
    left = left_by(report(slices[0], {HOUR: 9}, duplicates=1), several)
    with pytest.raises(TooManyDuplicates) as caught:
        next_after(None, left, *slices)
    assert str(caught.value) == (
        "table t: 506 of 1,010 records have a source and seq that landed before, more than"
        " `duplicate_share: 0.5` allows; most frequent: source shop (as in t-0, offsets 10 to"
        " 1009); nothing was committed. Events without numbers must have an empty source; if the"
        " log has events twice: --set duplicate_share=1"
    )


def test_nothing_is_made_of_what_does_not_fit() -> None:
    slices = [piece(0, 0, 10), piece(1, 10, 20)]
    with pytest.raises(Mismatch):
        next_after(None, left_by(report(slices[0], {HOUR: 10})), *slices)


def test_a_run_of_accepted_gaps_alone() -> None:
    """Nothing is read; the state says where reading goes on."""
    planned = plan_of(piece(0, 50, 60))
    made = next_after(None, Staged({}, ()), planned=replace(planned, slices=()))
    assert made.adds == ()
    assert made.passages == ()
    assert made.topics == planned.topics


FIVE_PAST = hour(5) + 7
BEFORE = manifests.manifest(
    {
        hour(0): HourState(rows=30, files=("a", "b"), bytes=600, complete=4, late_rows=3),
        hour(1): HourState(rows=5, files=("c",), bytes=50, incomplete="agents on web-1"),
        hour(2): HourState(rows=7, files=("d",), bytes=70, complete=3),
    }
)
BEFORE = replace(BEFORE, complete=((hour(0), hour(1)), (hour(2), hour(4))))
PIECE = piece(0, 10, 100, topic="logs")


def read_again(rows: dict[Hour, int], dead: int = 0) -> SliceReport:
    """Of 90 offsets, two of which are compacted away; the others are of other hours."""
    found = report(PIECE, rows, dead=dead, no_events=90 - sum(rows.values()) - dead, leads=0)
    (account,) = found.accounts
    account = msgspec.structs.replace(account, compacted=2, other_hours=account.compacted - 2)
    runs = report(PIECE, {}, sources={"s": ((5, 12),)}).sources
    return msgspec.structs.replace(found, accounts=(account,), sources=runs)


LOG = TopicPartition("logs", 0)


def rebuilt(
    left: SliceReport,
    *hours: Hour,
    accept_gap: bool = True,
    before: Manifest = BEFORE,
    gone: int = 0,
    in_files: int = 0,
    remove_rows: int = 0,
    **markers: tuple[str, ...],
) -> Manifest:
    return rebuild_manifest(
        before,
        Plan(
            slices=(PIECE,),
            ranges=(),
            topics=before.topics,
            replaced=(PartitionRows(path="a", partition=LOG, rows=in_files, lowest=0, gone=gone),)
            if in_files
            else (),
        ),
        left_by(left),
        hours,
        terms(now=FIVE_PAST),
        markers={hour(int(key[1:])): names for key, names in markers.items()},
        accept_gap=accept_gap,
        remove_rows=remove_rows,
    )


def test_an_hours_files_are_replaced_and_the_rest_stays_as_it_is() -> None:
    after = rebuilt(read_again({hour(0): 29}), hour(0))
    new = path(0, "part-dc1-0-10-100-6.parquet")
    assert after.removes == ("a", "b")
    assert [(each.path, each.rows) for each in after.adds] == [(new, 29)]
    state = HourState(
        rows=29, files=(new,), bytes=290, changed=6, at=FIVE_PAST, whole=30, schema_number=1
    )
    assert after.hours == BEFORE.hours | {hour(0): replace(state, incomplete=state.lack)}
    assert state.lack.startswith("1 of its 30 rows, which the brokers no longer had")
    assert (after.run, after.kind, after.rebuilt) == (6, RunKind.REBUILD, (hour(0),))
    (partition,) = after.topics[0].partitions
    assert (partition.next_offset, partition.from_offset, partition.skipped) == (100, -1, 0)
    landed = KnownSources(topic="logs", partition=0, loaded=hour(5), landed={"s": 13})
    assert after.sources == (landed,)
    assert (after.ledger_seq, after.schema) == (10, "columns")
    (passage,) = after.passages
    assert (passage.first, passage.next_offset, passage.late) == (10, 100, {})
    assert [(each.start, each.rows) for each in passage.windows] == [(hour(0), 29)]
    assert msgspec.json.decode(msgspec.json.encode(after), type=Manifest) == after


def test_a_rebuilt_hour_is_open_again_and_its_markers_go() -> None:
    empty = HourState(rows=0, files=(), complete=5)
    recalled = replace(BEFORE, hours=BEFORE.hours | {hour(3): empty})
    after = rebuilt(
        read_again({hour(0): 29, hour(1): 4}),
        *(hour(1), hour(0), hour(3)),
        before=recalled,
        h0=("part-x", "_SUCCESS", "_LATE-5", "_LATE-4"),
        h1=("_INCOMPLETE", "_notes"),
        h3=("_DAMAGED",),
    )
    gone = [(0, "_LATE-4"), (0, "_LATE-5"), (0, "_SUCCESS"), (3, "_DAMAGED")]
    assert after.complete == ((hour(2), hour(3)),)
    *markers, first, second, table = after.markers
    assert (markers, table.path) == (
        [Marker(path=path(*each)) for each in gone],
        "logs/_complete_hours.json",
    )
    assert [marker.path for marker in (first, second)] == [path(at, "_INCOMPLETE") for at in (0, 1)]
    assert '"missing": "1 of its 5 rows, which' in second.content
    assert [after.hours[hour(at)].complete for at in range(4)] == [-1, -1, 3, -1]
    assert after.hours[hour(3)] == HourState(rows=0, files=(), changed=6, at=FIVE_PAST)
    assert after.rebuilt == (hour(0), hour(1), hour(3))


def test_hours_of_which_nothing_came_back_are_never_replaced() -> None:
    for came in (read_again({hour(0): 30}), read_again({hour(0): 29}, dead=3), read_again({})):
        emptied = [each for each in range(3) if hour(each) not in came.rows]
        with pytest.raises(GapError, match="none of the rows could be read again") as caught:
            rebuilt(came, *map(hour, range(4)))
        said = str(caught.value).partition(": ")[0]
        assert said == ", ".join(f"logs/{hour_folder(hour(each))}" for each in emptied)


def test_an_hour_that_is_rebuilt_can_be_new() -> None:
    after = rebuilt(read_again({hour(4): 1}), hour(4))
    assert (after.hours[hour(4)].rows, after.removes) == (1, ())


def test_dead_letters_of_a_rebuild_are_no_rows() -> None:
    after = rebuilt(read_again({hour(0): 29}, dead=3), hour(0))
    assert (after.dead, after.hours[hour(0)].rows) == ({"no value": 3}, 29)
    assert after.hours.keys() == BEFORE.hours.keys()
    assert [each.path for each in after.adds if each.path.startswith("_dead/")] == [
        f"_dead/logs/{hour_folder(hour(5))}/part-dc1-0-10-100-6.parquet"
    ]
    with pytest.raises(TooManyDead):
        rebuilt(read_again({hour(0): 2}, dead=3), hour(0))


def test_an_hour_of_which_less_comes_back_is_not_replaced_unless_that_is_accepted() -> None:
    for came in (read_again({hour(0): 30}), read_again({hour(0): 27}, dead=3)):
        assert rebuilt(came, hour(0), accept_gap=False).run == 6
    less = read_again({hour(0): 29}), read_again({hour(0): 26}, dead=3), read_again({})
    for came in less:
        with pytest.raises(GapError, match="--accept-gap"):
            rebuilt(came, hour(0), accept_gap=False)
        if came.rows:  # and what lacked rows once is whole again only when all come back
            state = rebuilt(came, hour(0)).hours[hour(0)]
            lacking = replace(BEFORE, hours={hour(0): state})
            assert rebuilt(came, hour(0), before=lacking).hours[hour(0)].whole == 30
            with pytest.raises(GapError, match="had 30 rows"):
                rebuilt(came, hour(0), accept_gap=False, before=lacking)
            whole = rebuilt(read_again({hour(0): 30}), hour(0), before=lacking).hours[hour(0)]
            assert (whole.lack, whole.incomplete) == ("", "")


@pytest.mark.parametrize(
    ("came", "in_files", "gone", "removed"),
    [
        (30, 30, 0, 0),
        (29, 0, 0, 0),  # the files were deleted
        (29, 29, 0, 0),  # and some of them: all that is left comes back
        (20, 29, 0, 9),  # a damaged batch, or compaction
        (29, 30, 4, 4),  # and three offsets are there twice
        (30, 10, 10, 10),  # a file was deleted, and the other's events are gone
    ],
)
def test_rows_that_exist_nowhere_else_are_removed_only_by_their_number(
    came: int, in_files: int, gone: int, removed: int
) -> None:
    read, lacks = read_again({hour(0): came}), came < 30 or gone > 0

    def after(remove_rows: int) -> Manifest:
        return rebuilt(read, hour(0), in_files=in_files, gone=gone, remove_rows=remove_rows)

    if removed:
        with pytest.raises(RowsLost, match=f"would remove {removed} rows") as refused:
            after(removed - 1)
        assert refused.value.rows == removed
    made = after(removed)
    assert made.kept_in == ("_penstock/logs/replaced/run-6" if lacks else "")
    assert bool(made.hours[hour(0)].lack) == lacks


def test_a_rebuild_takes_no_rows_of_other_hours_and_lacks_none_that_was_planned() -> None:
    with pytest.raises(Mismatch):
        rebuilt(read_again({hour(0): 29, hour(2): 1}), hour(0))
    with pytest.raises(Mismatch):
        rebuild_manifest(
            BEFORE,
            Plan(slices=(PIECE,), ranges=(), topics=BEFORE.topics),
            replace(left_by(read_again({hour(0): 29})), files=()),
            (hour(0),),
            terms(now=FIVE_PAST),
            markers={},
            accept_gap=True,
            remove_rows=0,
        )
