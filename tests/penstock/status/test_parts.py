"""One part, asked without being waited for; what is made of answers; how fast topics grow."""

import threading
import time
from queue import Empty, SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.reconciling.findings import State
from audit.reconciling.topic_verdict import Wait, WindowVerdict
from audit.store.judged_hours import HOUR
from client.connection.addresses import Address
from client.connection.metadata import (
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from client.producing.delivery import TopicPartition
from ground.http.client import parse_program_url
from penstock.status.audit import (
    AuditQuery,
    OpenTopic,
    complete_until,
    first_open_hour,
    landed_of,
    last_load,
)
from penstock.status.cluster import StoredTopic, cluster_part
from penstock.status.part import NoStatus, Part, Silent
from penstock.status.values import BrokerStatus, Rates
from tests.penstock.answering_audit import answering
from tests.penstock.status.made_up import (
    NOW,
    THIS_HOUR,
    answers_of,
    audit_part,
    consumer_row,
    load_row,
    status_of,
    topic,
    topic_row,
)

NEVER = 1_000_000.0


def soon() -> float:
    return time.monotonic() + 30


def test_an_answer_is_kept_for_a_while() -> None:
    answers = iter("ab")
    part = Part("it", lambda: next(answers), lambda: None, every=NEVER)
    for _ in range(3):
        part.ask()
        assert part.answer(soon()) == "a"


def test_an_error_is_raised_and_asked_again() -> None:
    answers = SimpleQueue[int]()
    part = Part("it", answers.get_nowait, lambda: None, every=NEVER)
    part.ask()
    with pytest.raises(Empty):
        part.answer(soon())
    answers.put(5)
    part.ask()
    assert part.answer(soon()) == 5


def test_who_takes_long_is_asked_once_and_closed_when_done() -> None:
    answers = SimpleQueue[int]()
    asked: list[str] = []
    closed = threading.Event()

    def question() -> int:
        asked.append("?")
        return answers.get()

    part = Part("it", question, closed.set, every=0)
    for _ in range(3):
        part.ask()
        with pytest.raises(Silent):
            part.answer(time.monotonic())
    part.close()
    assert not closed.is_set()
    answers.put(7)
    assert closed.wait(60)
    assert part.answer(soon()) == 7
    assert asked == ["?"]


def test_who_is_idle_is_closed_at_once() -> None:
    closed: list[str] = []
    part = Part("it", lambda: 1, lambda: closed.append("!"), every=0)
    part.ask()
    part.answer(soon())
    part.close()
    assert closed == ["!"]


def led_topic(name: str, *leaders: int) -> TopicMetadata:
    """A partition for each leader, on brokers 1 and 2."""
    partitions = tuple(
        PartitionMetadata(index, leader, 0, replicas=(1, 2), in_sync=(leader,))
        for index, leader in enumerate(leaders)
    )
    return TopicMetadata(name, None, partitions)


KNOWN = ClusterMetadata(
    controller=2,
    brokers={2: BrokerMetadata(2, Address("b", 2)), 1: BrokerMetadata(1, Address("a", 1))},
    topics={
        each.name: each
        for each in (
            led_topic("t", 1, 2),
            led_topic("half", 1, -1),
            led_topic("_own", 1),
            led_topic("dc1._schemas", 1),
        )
    },
)
T0, T1, HALF = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("half", 0)


def test_brokers_with_what_they_lead_and_hold() -> None:
    assert cluster_part(KNOWN, {}, {}).brokers == (
        BrokerStatus(id=1, address="a:1", leads=4, partitions=6),
        BrokerStatus(id=2, address="b:2", controller=True, leads=1, partitions=6),
    )


def test_topics_with_what_they_hold() -> None:
    part = cluster_part(KNOWN, {T0: 10, T1: 0, HALF: 0}, {T0: 110, T1: 5, HALF: 7})
    assert part.topics == {
        "t": StoredTopic(partitions=2, stored=105, end=115, without_leader=0),
        "half": StoredTopic(partitions=2, stored=-1, end=-1, without_leader=1),
    }


def test_beginnings_that_are_older_than_ends_make_nothing_negative() -> None:
    part = cluster_part(KNOWN, {T0: 10, T1: 10}, {T0: 0, T1: 0})
    assert (part.topics["t"].stored, part.topics["t"].end) == (0, 0)


def test_what_follows_soon_after_one_another_is_one_load() -> None:
    loads = [
        load_row("a", NOW, 10),
        load_row("elsewhere", NOW, 1_000, to="file:///other"),
        load_row("b", NOW - 8_000, 20),
        load_row("c", NOW - 16_000, 30),
        load_row("d", NOW - 60_000, 40),
    ]
    load = last_load(audit_part(loads=loads), "c")
    assert load is not None
    assert (load.time, load.topics, load.rows) == (NOW, 3, 60)


def test_a_topic_that_comes_again_is_of_the_load_before() -> None:
    loads = [load_row("a", NOW, 1), load_row("a", NOW - 5_000, 2), load_row("b", NOW - 5_000, 4)]
    load = last_load(audit_part(loads=loads), "c")
    assert load is not None
    assert (load.topics, load.rows) == (1, 1)
    assert last_load(audit_part(loads=loads), "another") is None


def test_what_has_landed_of_a_topic_is_what_all_its_roots_have() -> None:
    consumers = [
        consumer_row("t", 5, read=NOW),
        consumer_row("t", 900, read=NOW - HOUR),
        consumer_row("t", 77, to="file:///other"),
        consumer_row("t", 3, cluster="another"),
        consumer_row("u", 9, to="file:///other"),
    ]
    assert landed_of(audit_part(consumers=consumers), "c") == {"t": 5, "u": 9}


@pytest.mark.parametrize(
    ("state", "hour"),
    [(State.COMPLETE, -1), (State.PENDING, THIS_HOUR), (State.CHANGED, THIS_HOUR)],
)
def test_the_first_hour_that_is_open(state: State, hour: int) -> None:
    assert first_open_hour(topic_row("t", state)) == hour


def cell(start: int, state: State) -> WindowVerdict:
    return WindowVerdict(start=start, length=10_000, state=state, sums=[])


def test_complete_until_the_first_that_is_not() -> None:
    cells = [cell(10, State.COMPLETE), cell(20, State.MISSING), cell(30, State.PENDING)]
    assert complete_until(cells, 99) == 20
    assert complete_until(cells[:1], 99) == 99


def test_an_audit_is_asked_for_an_hour_of_what_is_open_and_seldom_for_the_rest() -> None:
    part = audit_part([topic_row("t", State.PENDING), topic_row("done")])
    waits = [
        Wait(on="ledger", words="always"),
        Wait(on="agent", words="newer", since=NOW),
        Wait(on="hdfs", words="older", since=NOW - 1),
    ]
    bodies = answers_of(part, cells=[cell(THIS_HOUR + 60_000, State.PENDING)], waits=waits)
    with answering(lambda path, _: (200, bodies[path])) as audit:
        collector = AuditQuery(parse_program_url(audit.url), within=30)
        first, second = collector.ask(), collector.ask()
        collector.close()
    assert first == second
    assert (first.topics, first.agents, first.loads) == (part.topics, part.agents, part.loads)
    assert first.open == {
        ("c", "t"): OpenTopic(THIS_HOUR + 60_000, "older; newer; always"),
        ("c", "done"): OpenTopic(part.topics.as_of, ""),
    }
    paths = [path for path, _ in audit.asked]
    assert paths == ["topics", "agents", "loads", "brokers", "topic", "health", "alerts", "topics"]
    query = audit.asked[4][1]
    assert (query["topic"], query["from"], query["to"]) == (
        "t",
        str(THIS_HOUR),
        str(THIS_HOUR + HOUR),
    )


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'{"now": "soon"}', b"[" * 100_000, b"\xff\xfe", b"<html>"]
)
def test_what_is_no_audit_is_no_answer(body: bytes) -> None:
    with answering(lambda _path, _query: (200, body)) as audit:
        collector = AuditQuery(parse_program_url(audit.url), within=30)
        with pytest.raises(NoStatus, match="not an audit of this release"):
            collector.ask()
        collector.close()


def rates_of(*seen: tuple[int, int]) -> float:
    """Of a topic that had these ends, at so many milliseconds each."""
    rates = Rates()
    for at, end in seen:
        rates.add(status_of([topic("t", end)], now=NOW + at))
    return rates.of("t")


@pytest.mark.parametrize(
    ("seen", "rate"),
    [
        ([(0, 100)], -1),
        ([(0, 100), (0, 900)], -1),
        ([(0, 100), (1_000, 150)], 50),
        ([(0, 0), (60_000, 1_000_000), (65_000, 1_000_500)], 100),  # of the last seconds
        ([(0, 0), (1_000, 10**400)], 2**63),
        ([(0, 0), (1_000, 100), (-3_600_000, 200)], -1),  # the clock was set back
        ([(0, 0), (1_000, 100), (-3_600_000, 200), (-3_599_000, 210)], 10),
    ],
)
def test_a_rate(seen: list[tuple[int, int]], rate: float) -> None:
    assert rates_of(*seen) == pytest.approx(rate)


def test_a_topic_that_is_made_anew_or_not_seen_has_none() -> None:
    assert rates_of((0, 100), (1_000, 10)) == -1
    rates = Rates()
    rates.add(status_of([topic("t", 1)], now=NOW))
    rates.add(status_of([topic("t", 5)], now=NOW + 1_000))
    rates.add(status_of([topic("other", 5)], now=NOW + 2_000))
    assert rates.of("t") == -1


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 10_000)), min_size=2))
def test_a_rate_lies_between_the_slowest_and_the_fastest(steps: list[tuple[int, int]]) -> None:
    at = end = 0
    seen, speeds = [(0, 0)], []
    for millis, events in steps:
        at, end = at + millis, end + events
        seen.append((at, end))
        speeds.append(events * 1000 / millis)
    assert min(speeds) - 1e-6 <= rates_of(*seen) <= max(speeds) + 1e-6
