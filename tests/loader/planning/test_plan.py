"""What a run or a rebuild reads, and what it refuses to pass over."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from client.producing.delivery import TopicPartition
from loader.errors import GapError, RowsLost
from loader.planning.facts import Divergence, PartitionFacts, TopicFacts
from loader.planning.plan import Gap, Plan, Why, plan
from loader.planning.rebuild import plan_rebuild, readable_offsets
from loader.values.manifests import PartitionState, TopicState
from loader.values.replaced_rows import PartitionRows
from loader.values.tables import SourceTopic, TableSource

TABLE = TableSource(name="t", topics=(SourceTopic(topic="t", cluster="c"),))
EPOCH = 4


def facts(
    *partitions: tuple[int, int] | tuple[int, int, int], topic: str = "t", topic_id: str = "one"
) -> dict[str, TopicFacts]:
    """Earliest and end of each, and where the known epoch ended, if somebody knows."""
    found = {
        index: PartitionFacts(
            leader_epoch=EPOCH,
            earliest=each[0],
            end=each[1],
            epoch_end=each[2] if len(each) == 3 else None,
        )
        for index, each in enumerate(partitions)
    }
    return {topic: TopicFacts(topic=topic, topic_id=topic_id, partitions=found)}


def other_log(found: dict[str, TopicFacts], *, same_to: int) -> dict[str, TopicFacts]:
    """As batches tell."""
    other = Divergence(same_to=same_to, was="2 to 3", found="1 to 8")
    return {
        name: replace(
            topic,
            partitions={at: replace(log, divergence=other) for at, log in topic.partitions.items()},
        )
        for name, topic in found.items()
    }


def state(*next_offsets: int, topic: str = "t", topic_id: str = "one") -> list[TopicState]:
    partitions = tuple(
        PartitionState(partition=index, next_offset=each, leader_epoch=EPOCH)
        for index, each in enumerate(next_offsets)
    )
    return [TopicState(topic=topic, cluster="c", topic_id=topic_id, partitions=partitions)]


def planned(
    found: dict[str, TopicFacts],
    known: Sequence[TopicState],
    *,
    table: TableSource = TABLE,
    accept_gap: bool = False,
    max_records: int | None = None,
    records_per_task: int = 1_000,
) -> Plan:
    limits: Any = {"max_records": max_records, "records_per_task": records_per_task}
    return plan(table, found, known, accept_gap=accept_gap, **limits)


def as_asked_for(
    known: Sequence[TopicState], found: dict[str, TopicFacts]
) -> dict[str, TopicFacts]:
    """Nobody asks where an epoch ended that is not known, nor for batches that were not read."""
    told = {
        (topic.topic, each.partition): each.leader_epoch >= 0
        for topic in known
        for each in topic.partitions
    }
    return {
        name: replace(
            topic,
            partitions={
                index: each
                if told.get((name, index), True)
                else replace(each, epoch_end=None, divergence=None)
                for index, each in topic.partitions.items()
            },
        )
        for name, topic in found.items()
    }


def ranges(made: Plan) -> list[tuple[int, int, int]]:
    return [(each.partition, each.first, each.end) for each in made.ranges]


def next_offsets(made: Plan) -> list[int]:
    return [each.next_offset for topic in made.topics for each in topic.partitions]


def test_a_new_topic_is_read_from_its_beginning() -> None:
    made = planned(facts((0, 10), (7, 9), (3, 3)), [])
    assert ranges(made) == [(0, 0, 10), (1, 7, 9)]
    assert made.records == 12
    assert not made.nothing_to_do
    # Nobody knows how long it has been there: no gap, but not a secret either.
    assert (made.gaps, made.never_seen) == ((), {"t": 10})
    assert planned(facts((0, 10), (7, 9), (3, 3)), made.topics).never_seen == {}
    (topic,) = made.topics
    assert (topic.topic, topic.cluster, topic.topic_id) == ("t", "c", "one")
    assert [(each.next_offset, each.from_offset) for each in topic.partitions] == [
        (0, 0),
        (7, 7),
        (3, -1),
    ]


def test_reading_goes_on_where_it_ended() -> None:
    made = planned(facts((0, 10, 10), (0, 9, 9), (0, 5)), state(4, 9))
    assert ranges(made) == [(0, 4, 10), (2, 0, 5)]
    assert [each.leader_epoch for each in made.topics[0].partitions] == [EPOCH, EPOCH, -1]
    assert made.slices[0].topic_id == "one"


def test_nothing_new_is_nothing_to_do() -> None:
    assert planned(facts((0, 10, 10)), state(10)).nothing_to_do
    assert planned(facts(), []).nothing_to_do
    assert planned({}, []).nothing_to_do


def test_that_a_new_topic_has_lost_everything_is_written_down_once() -> None:
    made = planned(facts((7, 7)), [])
    assert (made.slices, made.never_seen) == ((), {"t": 7})
    assert not made.nothing_to_do
    assert planned(facts((7, 7)), made.topics).nothing_to_do
    assert planned({}, []).absent == ("t",)


def test_a_topic_without_ids_is_taken_for_the_same() -> None:
    assert ranges(planned(facts((0, 9), topic_id=""), state(4))) == [(0, 4, 9)]
    assert ranges(planned(facts((0, 9)), state(4, topic_id=""))) == [(0, 4, 9)]


def gap(why: Why, first: int, end: int, *, partition: int = 0, **more: Any) -> Gap:
    return Gap(topic="t", partition=partition, first=first, end=end, why=why, **more)


PARTED: dict[str, Any] = {"was": "2 to 3", "found": "1 to 8"}
LOST = "were loaded, but the log lost them since, or has other records there"
AGAIN = "; it is unknown how much of the rest is the same: all 2 offsets will be read again"
# What is found, what was known, the gap, what is read, and what is said.
GAPS: dict[str, tuple[dict[str, TopicFacts], list[TopicState], Gap, Any, str]] = {
    "new partition": (
        *(facts((0, 9), (7, 9)), state(9)),
        *(gap(Why.RETENTION, 0, 7, partition=1), [(1, 7, 9)]),
        "t-1: offsets 0 to 6 were deleted before they were read",
    ),
    "retention": (
        *(facts((7, 9)), state(4), gap(Why.RETENTION, 4, 7), [(0, 7, 9)]),
        "t-0: offsets 4 to 6 were deleted before they were read",
    ),
    "everything deleted": (
        *(facts((9, 9)), state(4), gap(Why.RETENTION, 4, 9), []),
        "t-0: offsets 4 to 8 were deleted",
    ),
    "recreated": (
        *(facts((0, 9), topic_id="two"), state(4), gap(Why.RECREATED, 4, -1), [(0, 0, 9)]),
        "t-0: the topic was deleted and created again; of the old one, offsets from 4 on",
    ),
    "another history": (
        *(facts((0, 9, 3)), state(4), gap(Why.TRUNCATED, 3, 4), [(0, 3, 9)]),
        "t-0: offsets 3 to 3 were loaded, but the log lost them",
    ),
    "another history and retention": (
        *(facts((5, 9, 3)), state(4), gap(Why.TRUNCATED, 3, 4), [(0, 5, 9)]),
        "t-0: offsets 3 to 3 were loaded",
    ),
    "shorter": (
        *(facts((1, 3)), state(4), gap(Why.TRUNCATED, 3, 4, again=2), [(0, 1, 3)]),
        f"t-0: offsets 3 to 3 {LOST}{AGAIN}, which duplicates rows without a source and seq, or "
        "of a forgotten source. To load",
    ),
    "another log": (
        *(other_log(facts((0, 9)), same_to=2), state(4)),
        *(gap(Why.TRUNCATED, 2, 4, again=2, **PARTED), [(0, 2, 9)]),
        f"t-0: offsets 2 to 3 {LOST}: the last batch that was read is 2 to 3; in its place: 1 to 8"
        f"{AGAIN}",
    ),
    "another log from the beginning": (
        *(other_log(facts((1, 9)), same_to=-1), state(4)),
        *(gap(Why.TRUNCATED, 1, 4, again=3, **PARTED), [(0, 1, 9)]),
        "t-0: offsets 1 to 3 were loaded, but the log lost them since",
    ),
    "empty": (
        *(facts((0, 0)), state(4), gap(Why.TRUNCATED, 0, 4), []),
        f"t-0: offsets 0 to 3 {LOST}. To load",
    ),
    "no partition": (
        *(facts(), state(4), gap(Why.VANISHED, 4, -1), []),
        "t-0 no longer exists; offsets from 4 on",
    ),
    "no topic": (*({}, state(4), gap(Why.VANISHED, 4, -1), []), "t-0 no longer exists"),
    "recreated smaller": (
        *(facts(topic_id="two"), state(4), gap(Why.RECREATED, 4, -1), []),
        "t-0: the topic was deleted and created again",
    ),
}


@pytest.mark.parametrize(("found", "known", "gap", "read", "said"), GAPS.values(), ids=GAPS)
def test_a_gap_fails_the_run_unless_it_is_accepted(
    found: dict[str, TopicFacts],
    known: list[TopicState],
    gap: Gap,
    read: list[tuple[int, int, int]],
    said: str,
) -> None:
    with pytest.raises(GapError) as refused:
        planned(found, known)
    message = str(refused.value)
    assert message.startswith(said)
    assert message.endswith("To load the rest, and record the gap: --accept-gap")
    made = planned(found, known, accept_gap=True)
    assert made.gaps == (gap,)
    assert ranges(made) == read
    # Once written down, it is no gap any more.
    assert not made.nothing_to_do
    after = planned(as_asked_for(made.topics, found), made.topics)
    assert after.gaps == ()
    assert ranges(after) == read


@pytest.mark.parametrize("topic_id", ["one", ""])
def test_a_topic_that_was_out_of_sight_is_read_on(topic_id: str) -> None:
    """A broker that has just started shows none, nor one that is not allowed to for a moment."""
    known = state(40, 7, topic_id=topic_id)
    away = planned({}, known, accept_gap=True)
    assert [each.absent for each in away.topics[0].partitions] == [True, True]
    half = planned(facts((0, 50), topic_id=topic_id), away.topics)
    assert ranges(half) == [(0, 40, 50)]
    assert [each.absent for each in half.topics[0].partitions] == [False, True]
    back = planned(facts((0, 60), (3, 9), topic_id=topic_id), half.topics)
    assert ranges(back) == [(0, 40, 60), (1, 7, 9)]
    assert not any(each.absent for each in back.topics[0].partitions)
    # And may be gone again.
    with pytest.raises(GapError):
        planned({}, back.topics)


def test_what_was_out_of_sight_has_lost_offsets_meanwhile() -> None:
    away = planned({}, state(4), accept_gap=True)
    with pytest.raises(GapError, match="t-0: offsets 4 to 6 were deleted before they were read"):
        planned(facts((7, 9)), away.topics)


def test_a_topic_that_comes_back_as_another_is_read_from_its_beginning() -> None:
    away = planned({}, state(4), accept_gap=True)
    anew = planned(facts((0, 9), topic_id="two"), away.topics)
    assert (ranges(anew), anew.gaps) == ([(0, 0, 9)], ())
    assert anew.topics[0].topic_id == "two"
    with pytest.raises(GapError, match="t-0: offsets 0 to 2 were deleted before they were read"):
        planned(facts((3, 9), topic_id="two"), away.topics)


def test_many_gaps_are_one_line() -> None:
    with pytest.raises(
        GapError, match=r"t-0: .* were read \(and 2 more gaps, 6 offsets in all\)\. To"
    ):
        planned(facts((7, 9), (7, 9), (7, 9)), state(4, 5, 6))


def test_what_is_given_up_is_counted() -> None:
    made = planned(facts((7, 9), (0, 9)), state(4, 3), accept_gap=True)
    assert [each.skipped for each in made.topics[0].partitions] == [3, 0]


def test_all_partitions_of_a_recreated_topic_begin_anew() -> None:
    made = planned(facts((2, 9), (0, 3), topic_id="two"), state(4), accept_gap=True)
    assert ranges(made) == [(0, 2, 9), (1, 0, 3)]
    assert made.topics[0].topic_id == "two"
    assert next_offsets(made) == [2, 0]
    assert made.topics[0].partitions[0].leader_epoch == -1


def test_a_limit_is_shared() -> None:
    made = planned(facts((0, 100), (0, 5), (0, 100)), [], max_records=25)
    assert ranges(made) == [(0, 0, 10), (1, 0, 5), (2, 0, 10)]
    assert made.records == 25
    made = planned(facts((0, 100), (0, 100)), [], max_records=1)
    assert made.records == 1
    assert [each.from_offset for each in made.topics[0].partitions].count(-1) == 1


def test_several_topics_of_one_table() -> None:
    table = TableSource(
        name="v",
        topics=(SourceTopic(topic="a", cluster="x"), SourceTopic(topic="b", cluster="y")),
        with_cluster=True,
    )
    old = state(5, topic="gone")
    known = [*state(3, topic="b"), *old]
    made = planned(facts((0, 4), topic="a") | facts((0, 9), topic="b"), known, table=table)
    assert [(each.topic, each.cluster, each.first, each.end) for each in made.slices] == [
        ("a", "x", 0, 4),
        ("b", "y", 3, 9),
    ]
    # What does not feed the table any more is remembered.
    assert made.topics[2:] == tuple(old)


offsets = st.integers(0, 50)
logs = st.lists(st.tuples(offsets, offsets).map(lambda at: (min(at), max(at))), max_size=4)


@given(found=logs, known=st.lists(offsets, max_size=4), limit=st.none() | st.integers(1, 60))
def test_everything_from_where_it_was_read_to_is_read_and_nothing_twice(
    found: list[tuple[int, int]], known: list[int], limit: int | None
) -> None:
    made = planned(
        facts(*found), state(*known), accept_gap=True, max_records=limit, records_per_task=7
    )
    read: dict[int, list[int]] = {}
    for each in made.slices:
        read.setdefault(each.partition, []).extend(range(each.first, each.end))
    for partition, (earliest, end) in enumerate(found):
        got = read.pop(partition, [])
        begins = known[partition] if partition < len(known) else earliest
        if not earliest <= begins <= end:
            begins = earliest
        assert got == list(range(begins, begins + len(got)))
        assert len(got) == end - begins or limit is not None
    assert not read
    total = sum(each.offsets for each in made.ranges)
    assert total == made.records
    assert limit is None or total <= limit
    assert [each.partition for topic in made.topics for each in topic.partitions] == list(
        range(max(len(found), len(known)))
    )


def rebuild_planned(
    found: dict[str, TopicFacts],
    known: list[TopicState],
    lowest: dict[int, int],
    *,
    accept_gap: bool = False,
    gone: int = 0,
    remove_rows: int = 0,
) -> Plan:
    return plan_rebuild(
        TABLE,
        found,
        known,
        replaced=[
            PartitionRows(
                path="f", partition=TopicPartition("t", each), rows=9, lowest=offset, gone=gone
            )
            for each, offset in lowest.items()
        ],
        accept_gap=accept_gap,
        remove_rows=remove_rows,
        records_per_task=100,
    )


def test_everything_that_was_read_and_is_there_is_read_again() -> None:
    known = state(8, 5, 0)
    made = rebuild_planned(facts((2, 20, 20), (0, 5, 5), (0, 3)), known, {0: 2})
    assert ranges(made) == [(0, 2, 8), (1, 0, 5)]
    assert made.topics == tuple(known)
    assert made.records == 11


@pytest.mark.parametrize(
    ("found", "began", "why", "read", "readable"),
    [
        (facts((4, 20)), 3, Why.RETENTION, [(0, 4, 8)], (4, 8)),
        (facts((9, 20)), 3, Why.RETENTION, [], (9, 8)),
        (facts((0, 20), topic_id="two"), 3, Why.RECREATED, [], None),
        (facts((0, 20)), 9, Why.RECREATED, [(0, 0, 8)], (0, 8)),
        (facts((0, 20, 6)), 3, Why.TRUNCATED, [(0, 0, 8)], (0, 6)),
        (facts((0, 6)), 3, Why.TRUNCATED, [(0, 0, 6)], (0, 6)),
        ({}, 3, Why.VANISHED, [], None),
        (facts(), 3, Why.VANISHED, [], None),
    ],
)
def test_what_only_files_hold_is_not_thrown_away(
    found: dict[str, TopicFacts],
    began: int,
    why: Why,
    read: list[tuple[int, int, int]],
    readable: tuple[int, int] | None,
) -> None:
    assert readable_offsets(found, state(8)).get(TopicPartition("t", 0)) == readable
    with pytest.raises(GapError) as refused:
        rebuild_planned(found, state(8), {0: began})
    assert str(refused.value) == (
        f"t-0: files of these hours have rows from offset {began} on, "
        f"but the log no longer has all of them ({why}). "
        "To rebuild the hours without them: --accept-gap"
    )
    made = rebuild_planned(found, state(8), {0: began}, accept_gap=True)
    assert [each.why for each in made.gaps] == [why]
    assert ranges(made) == read
    with pytest.raises(RowsLost, match="would remove 5 rows that the brokers no longer have") as no:
        rebuild_planned(found, state(8), {0: began}, accept_gap=True, gone=5, remove_rows=4)
    assert no.value.rows == 5
    assert rebuild_planned(
        found, state(8), {0: began}, accept_gap=True, gone=5, remove_rows=5
    ).replaced


def test_what_is_gone_and_in_no_file_of_these_hours_does_not_matter() -> None:
    assert ranges(rebuild_planned(facts((4, 20)), state(8), {0: 4})) == [(0, 4, 8)]
    assert ranges(rebuild_planned(facts((4, 20)), state(8), {})) == [(0, 4, 8)]
