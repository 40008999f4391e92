"""A stream goes on where it stands, whatever becomes of topics meanwhile: as Spark drives it, but
without Spark, which takes seconds for what takes milliseconds."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.admin import topics as admin
from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from loader.errors import GapError, LoaderError, OptionRefused
from loader.planning.facts import PartitionFacts, TopicFacts
from loader.spark.data_source.stream import (
    StreamOffset,
    advanced,
    beginning,
    everything,
    from_json,
    ranges_of,
    whole,
)
from tests.client.shipped_topics import delete_before
from tests.loader.application import Application
from tests.loader.spark.data_source.conftest import NewApplication, Query

Log = tuple[int, int] | tuple[int, int, int | None]  # earliest, end, end of the known epoch


def topic(*logs: Log, name: str = "t", id: str = "A") -> dict[str, TopicFacts]:  # noqa: A002
    return {
        name: TopicFacts(
            topic=name,
            topic_id=id,
            partitions={
                index: PartitionFacts(
                    leader_epoch=3,
                    earliest=log[0],
                    end=log[1],
                    epoch_end=log[2] if len(log) > 2 else None,
                )
                for index, log in enumerate(logs)
            },
        )
    }


def at(facts: Mapping[str, TopicFacts], *offsets: int) -> StreamOffset:
    """Of the one topic's partitions."""
    ((name, _),) = facts.items()
    return beginning(
        facts, {TopicPartition(name, index): each for index, each in enumerate(offsets)}
    )


def reads(start: StreamOffset, end: StreamOffset) -> list[tuple[str, int, int, int]]:
    return [(each.topic, each.partition, each.first, each.end) for each in ranges_of(start, end)]


def test_from_batch_to_batch() -> None:
    logs = topic((0, 10), (0, 5))
    start = at(logs, 0, 5)
    first = advanced(start, logs)
    assert reads(start, first) == [("t", 0, 0, 10)]
    assert advanced(first, logs) is first
    more = topic((0, 12, 10), (2, 9, 5))
    second = advanced(first, more)
    assert reads(first, second) == [("t", 0, 10, 12), ("t", 1, 5, 9)]
    assert reads(second, second) == []


def test_an_offset_says_by_itself_what_its_batch_has() -> None:
    """Of a first batch that is run again, Spark asks anew where the stream begins."""
    logs = topic((0, 10))
    first = advanced(at(logs, 0), logs)
    assert reads(at(logs, 10), first) == [("t", 0, 0, 10)]


def test_a_batch_without_a_start_begins_where_the_last_one_ended() -> None:
    """As in Spark 4.1, which asks for ends alone."""
    start = at(topic((0, 10), (0, 5)), 4, 5)
    end = everything(topic((0, 10), (0, 5), (0, 2)))
    assert (start.is_begun, end.is_begun) == (True, False)
    later = topic((0, 30), (0, 5), (0, 9), (0, 9))
    batch = advanced(start, later, target=from_json(end.as_json()))
    assert reads(start, batch) == [("t", 0, 4, 10), ("t", 2, 0, 2)]
    assert reads(end, advanced(end, later)) == [("t", 0, 10, 30), ("t", 2, 2, 9), ("t", 3, 0, 9)]


def test_offsets_travel_as_json() -> None:
    logs = topic((0, 10), (0, 5))
    offset = advanced(at(logs, 0, 1), logs)
    text = json.dumps(offset.as_json())
    assert from_json(json.loads(text)) == offset
    assert json.dumps(from_json(json.loads(text)).as_json()) == text
    assert json.loads(text) == {
        "version": 1,
        "topics": {
            "t": {
                "id": "A",
                "partitions": {
                    "0": {"first": 0, "next": 10, "epoch": 3},
                    "1": {"first": 1, "next": 5, "epoch": 3},
                },
            }
        },
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ({"version": 2, "topics": {}}, "has offsets of version 2, but this Penstock reads"),
        ({"t": {"0": 5}}, "version None"),
        ({"version": 1, "topics": {"t": {}}}, "damaged: "),
    ],
)
def test_offsets_of_others(text: dict[str, Any], said: str) -> None:
    with pytest.raises(LoaderError, match=said):
        from_json(text)


def test_new_partitions_and_topics_are_read_from_their_beginning() -> None:
    start = at(topic((0, 10)), 10)
    grown = topic((0, 10), (0, 7), (0, 0))
    end = advanced(start, {**grown, **topic((0, 2), name="u", id="B")})
    assert reads(start, end) == [("t", 1, 0, 7), ("u", 0, 0, 2)]
    assert advanced(end, {**grown, **topic((0, 2), name="u", id="B")}) is end


@pytest.mark.parametrize(
    ("now", "said", "read"),
    [
        (topic((8, 12)), "t-0: offsets 5 to 7 were deleted", [("t", 0, 8, 12)]),
        (topic((0, 3)), "t-0: offsets 3 to 4 were loaded, but the log lost", [("t", 0, 0, 3)]),
        (topic((0, 9, 4)), "the log lost them since", [("t", 0, 4, 9)]),
        (topic((0, 9), id="B"), "the topic was deleted and created again", [("t", 0, 0, 9)]),
        ({}, "t-0 no longer exists", []),
    ],
)
def test_what_is_missing_fails_the_stream_unless_it_does_not_matter(
    now: Mapping[str, TopicFacts], said: str, read: list[tuple[str, int, int, int]]
) -> None:
    start = at(topic((0, 10)), 5)
    with pytest.raises(GapError, match=said) as failed:
        advanced(start, now)
    assert "failOnDataLoss=false" in str(failed.value)
    end = advanced(start, now, fail_on_data_loss=False)
    assert reads(start, end) == read
    assert (end == start) == (not now)
    # From now on the leaders' epochs are known to be those of what was read.
    logs = [
        (each.earliest, each.end) for found in now.values() for each in found.partitions.values()
    ]
    settled = topic(*logs, id=now["t"].topic_id) if now else topic((0, 5))
    assert advanced(end, settled) is end


def test_what_was_out_of_sight_is_read_on() -> None:
    start = at(topic((0, 10), (0, 10)), 5, 6)
    half = advanced(start, topic((0, 9)), fail_on_data_loss=False)
    assert reads(start, half) == [("t", 0, 5, 9)]
    away = advanced(half, {}, fail_on_data_loss=False)
    assert reads(half, away) == []
    back = advanced(away, topic((0, 12), (0, 12)))
    assert reads(away, back) == [("t", 0, 9, 12), ("t", 1, 6, 12)]


def test_a_run_with_a_target_ends_there() -> None:
    then = topic((0, 10), (0, 5))
    start, target = at(then, 4, 5), whole(then)
    now = {**topic((0, 30), (0, 5), (0, 9)), **topic((0, 2), name="u")}
    end = advanced(start, now, target=target)
    assert reads(start, end) == [("t", 0, 4, 10)]
    assert advanced(end, now, target=target) is end
    assert reads(end, advanced(end, now)) == [("t", 0, 10, 30), ("t", 2, 0, 9), ("u", 0, 0, 2)]


@given(ends=st.lists(st.integers(0, 50), min_size=1, max_size=6), most=st.integers(1, 40))
def test_limited_batches_have_every_offset_once(ends: list[int], most: int) -> None:
    logs = topic(*((0, end) for end in ends))
    here = at(logs, *[0] * len(ends))
    found: list[tuple[int, int]] = []
    while (end := advanced(here, logs, most=most)) is not here:
        batch = [(each[1], offset) for each in reads(here, end) for offset in range(*each[2:])]
        assert 0 < len(batch) <= most
        found += batch
        here = end
    assert sorted(found) == [(index, each) for index, end in enumerate(ends) for each in range(end)]


NewQuery = Callable[..., Query]


def numbered(partition: int, *numbers: int) -> list[tuple[int, int]]:
    return [(partition, each) for each in range(*numbers)]


def test_batch_after_batch(application: Application, brokers: Brokers, query: NewQuery) -> None:
    application.write(10)
    late = query(application)
    early = query(application, startingOffsets="earliest", maxBytesPerTask="1000")
    ends, starts = late.begin(), early.begin()
    assert late.batch(ends) == (ends, [])
    application.write(5)
    admin.add_partitions(brokers, application.topic, 2)
    ends, rows = late.batch(ends)
    assert rows == numbered(0, 10, 15)
    middle, rows = early.batch(starts, most=12)
    assert rows == numbered(0, 12)
    starts, rows = early.batch(middle)
    assert rows == numbered(0, 12, 15)
    assert early.batch(starts) == (starts, [])
    # The same batch again, as after a crash.
    assert early.batch(middle) == (starts, numbered(0, 12, 15))


def test_what_retention_takes(application: Application, brokers: Brokers, query: NewQuery) -> None:
    application.write(10)
    strict = query(application, startingOffsets="earliest")
    lenient = query(application, failOnDataLoss="false")
    start = strict.begin()
    brokers.topic(application.topic)
    delete_before(brokers, application.topic, 4)
    with pytest.raises(GapError, match=f"{application.topic}-0: offsets 0 to 3 were deleted"):
        strict.batch(start)
    end, rows = lenient.batch(start)
    assert rows == numbered(0, 4, 10)
    assert lenient.batch(end) == (end, [])


def test_topics_that_come_and_go(new_application: NewApplication, query: NewQuery) -> None:
    one = new_application("-one")
    one.write(3)
    stream = query(topicPattern=f"{one.topic[:-4]}-*", startingOffsets="earliest")
    start, rows = stream.batch(stream.begin())
    assert rows == numbered(0, 3)
    two = new_application("-two")
    two.write(2)
    start, rows = stream.batch(start)
    assert rows == numbered(0, 2)
    other = query(two)
    with pytest.raises(OptionRefused, match=f"read topic {one.topic}, which option `topic` does"):
        other.batch(start)


def test_a_run_ends_where_it_was_to_end(application: Application, query: NewQuery) -> None:
    application.write(10)
    stream = query(application, startingOffsets="earliest")
    start = stream.begin()
    stream.stream.end_here()
    application.write(10)
    start, rows = stream.batch(start, most=7)
    assert rows == numbered(0, 7)
    start, rows = stream.batch(start, most=7)
    assert rows == numbered(0, 7, 10)
    assert stream.batch(start, most=7) == (start, [])
