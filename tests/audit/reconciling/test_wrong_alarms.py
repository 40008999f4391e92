"""What looks like a fault and is none."""

from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from audit.findings import FaultKind, State
from audit.picture import (
    Hole,
    LostBytes,
    OffsetSpan,
    PartitionPicture,
    Tier,
    TierKind,
    TopicKey,
    Twice,
    Window,
    WindowSums,
)
from audit.reconciling.verdict import reconcile
from tests.audit.reconciling.pictures import (
    AGENT,
    BROKER,
    EVENTS,
    HDFS,
    HOUR,
    MINUTE,
    START,
    agent,
    claimed,
    picture,
    source,
    window,
    windows,
)

_NONE = WindowSums()


def test_a_quiet_topic() -> None:
    quiet = picture(windows=[], partitions=[])
    assert reconcile(quiet).state is State.COMPLETE
    now = START + 30 * MINUTE
    live = replace(quiet, now=now, agents=[agent(until=now - 90_000)])
    assert reconcile(live).state is State.COMPLETE
    silent = replace(live, agents=[agent(until=now - 10 * MINUTE)])
    assert [each.on for each in reconcile(silent).waits] == ["agent"]


def test_a_topic_without_agents() -> None:
    spoken = [window(each, agent=_NONE) for each in range(60)]
    alone = picture(tiers=(BROKER, HDFS), windows=spoken, partitions=[claimed(agent=())], agents=[])
    verdict = reconcile(alone)
    assert (verdict.state, verdict.waits) == (State.COMPLETE, [])


def test_other_producers() -> None:
    more = WindowSums(15, 150, 12)
    verdict = reconcile(
        picture(
            windows=windows(window(3, broker=more, hdfs=more)),
            partitions=[claimed(agent=((0, 30), (35, 600)))],
        )
    )
    assert verdict.state is State.COMPLETE
    assert verdict.windows[3].unclaimed == 5


@pytest.mark.parametrize(
    ("spoilt", "yet"),
    [
        ({}, 0),
        # The agent is killed: it is done up to the window before, and is not heard any more.
        ({"agents": [agent(until=START + 3 * MINUTE)]}, 5),
        # It has shipped old lines, and has not said so when the brokers have counted them.
        ({"partitions": [claimed(agent=((0, 600),), broker=((0, 605),), hdfs=((0, 605),))]}, 5),
        # An entry of its journal is under way.
        ({"holes": [Hole("a1", TierKind.AGENT, "web-3", 7, 1, START, START + 2 * HOUR)]}, 5),
    ],
)
def test_what_an_agent_may_still_claim_is_nobody_elses(spoilt: dict[str, Any], yet: int) -> None:
    more = WindowSums(15, 150, 12)
    others = {
        "windows": windows(window(3, broker=more, hdfs=more)),
        "partitions": [claimed(agent=((0, 30), (35, 600)))],
    }
    found = reconcile(picture(**others | spoilt)).windows[3]
    assert (found.unclaimed, found.unclaimed_yet) == (5, yet)


def test_what_brokers_have_still_to_count_is_nobody_elses() -> None:
    """Of a copy: its own have counted it, and those of the origin, which were killed, have not."""
    origin = Tier(TierKind.ORIGIN, "dc1")
    more = WindowSums(15, 150, 12)
    found = reconcile(
        picture(
            tiers=(origin, BROKER),
            windows=[
                structs.replace(each, sums={origin: each.sums[AGENT], BROKER: each.sums[BROKER]})
                for each in windows(window(3, broker=more))
            ],
            partitions=[PartitionPicture(0, {origin: ((0, 600),), BROKER: ((0, 605),)})],
            agents=[],
            origin=TopicKey("dc1", "clicks", "id"),
        )
    )
    assert (found.windows[3].unclaimed, found.windows[3].unclaimed_yet) == (5, 5)


def test_other_producers_where_no_broker_counts() -> None:
    verdict = reconcile(
        picture(
            tiers=(AGENT, HDFS),
            windows=windows(window(3, hdfs=WindowSums(15, 150, 12))),
            partitions=[claimed(agent=((0, 30), (35, 600)))],
        )
    )
    assert verdict.state is State.COMPLETE


def test_a_load_once_a_night() -> None:
    verdict = reconcile(
        picture(
            windows=[window(each, hdfs=_NONE) for each in range(60)],
            partitions=[claimed(hdfs=())],
            open=[OffsetSpan(BROKER, 0, 0, 600, START, START + HOUR, 600)],
        )
    )
    assert verdict.state is State.PENDING
    assert not verdict.findings
    assert {(each.missing, each.pending) for each in verdict.windows} == {(0, EVENTS)}
    assert [each.words for each in verdict.waits] == [
        "hdfs:/data has yet to load 600 offsets of 1 partition, from 2025-11-12 09:00:00 on"
    ]


def test_loads_before_brokers_have_counted() -> None:
    verdict = reconcile(
        picture(
            windows=windows(window(59, broker=_NONE)),
            partitions=[claimed(broker=((0, 590),))],
            open=[OffsetSpan(AGENT, 0, 590, 600, START + 59 * MINUTE, START + HOUR, 10)],
        )
    )
    assert (verdict.state, verdict.findings) == (State.PENDING, [])
    assert verdict.windows[59].waits == ["broker"]


def test_brokers_that_began_to_count_later() -> None:
    """The loader had read what was there before."""
    early = [window(each, agent=_NONE, broker=_NONE) for each in range(10)]
    verdict = reconcile(
        picture(
            tiers=(BROKER, HDFS),
            windows=windows(*early),
            partitions=[claimed(broker=((100, 600),))],
        )
    )
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def test_clocks_that_are_ahead() -> None:
    """Events of a time that is yet to come: nothing is late, and nothing is missing yet."""
    ahead = window(59, hdfs=_NONE)
    spoilt = picture(windows=windows(ahead), now=START + 59 * MINUTE, agents=[agent()])
    verdict = reconcile(spoilt)
    assert verdict.findings == []
    assert verdict.windows[59].state is State.PENDING


def test_statements_that_come_out_of_order() -> None:
    """The entry before the newest is under way: no fault within the grace, one afterwards."""
    hole = Hole("broker-1", TierKind.BROKER, "kafka-1", 7, 1, START, START + 2 * MINUTE)
    spoilt = picture(
        windows=windows(window(1, broker=_NONE)),
        partitions=[claimed(broker=((0, 10), (20, 600)))],
        open=[OffsetSpan(AGENT, 0, 10, 20, START + MINUTE, START + 2 * MINUTE, 10)],
        holes=[hole],
        now=START + 2 * MINUTE + 30_000,
        to_time=START + 2 * MINUTE,
    )
    young = reconcile(spoilt)
    assert (young.state, young.findings) == (State.PENDING, [])
    old = reconcile(replace(spoilt, now=START + HOUR))
    assert {each.kind for each in old.findings} == {FaultKind.UNPROVEN}


@pytest.mark.parametrize(
    "unsure",
    [
        structs.replace(window(1), uncounted=frozenset({BROKER})),
        window(1, broker=WindowSums(15, 150, 12), hdfs=WindowSums(15, 150, 12)),
        window(1, broker=WindowSums(10, 150, 12), hdfs=WindowSums(10, 150, 12)),
    ],
    ids=["not counted", "foreign ones besides", "as many foreign ones"],
)
def test_statements_that_come_out_of_order_where_sums_do_not_show_it(unsure: Window) -> None:
    """What may still come is no fault, and nothing that is complete without it."""
    spoilt = picture(
        windows=windows(unsure),
        partitions=[claimed(broker=((0, 10), (20, 600)))],
        open=[OffsetSpan(AGENT, 0, 10, 20, START + MINUTE, START + 2 * MINUTE, 10)],
        holes=[Hole("broker-1", TierKind.BROKER, "kafka-1", 7, 1, START, START + 3 * MINUTE)],
        now=START + 3 * MINUTE + 30_000,
        to_time=START + 2 * MINUTE,
    )
    young = reconcile(spoilt)
    assert (young.windows[1].waits, young.findings) == (["ledger"], [])
    old = reconcile(replace(spoilt, now=START + HOUR))
    assert FaultKind.UNPROVEN in {each.kind for each in old.findings}
    assert old.windows[1].waits == []


def test_another_topic_s_missing_entry() -> None:
    """A broker speaks of many topics: where everything is spoken of, no entry of it is missed."""
    hole = Hole("broker-1", TierKind.BROKER, "kafka-1", 7, 1, START, START + MINUTE)
    assert reconcile(picture(holes=[hole])).state is State.COMPLETE


def test_batches_that_reach_into_two_windows() -> None:
    """The offsets of a partition are open, but this window has all its events."""
    verdict = reconcile(
        picture(
            windows=windows(window(59, hdfs=_NONE)),
            partitions=[claimed(hdfs=((0, 590),))],
            open=[OffsetSpan(BROKER, 0, 590, 600, START + 58 * MINUTE, START + HOUR, 10)],
        )
    )
    assert [each.state for each in verdict.windows[58:]] == [State.COMPLETE, State.PENDING]


def test_files_that_were_shipped_before_the_ledger_begins() -> None:
    told = replace(source(landed=((0, 600),), shipped=((300, 600),)), finished_events=600)
    assert reconcile(picture(sources=[told])).state is State.COMPLETE


def test_faults_of_another_day() -> None:
    """Sources are those of all times."""
    lost = LostBytes("s1", 0, 0, 100, 1, 100, "truncated", START - HOUR)
    told = replace(source(landed=((0, 600),)), lost=[lost])
    assert reconcile(picture(sources=[told])).state is State.COMPLETE


def test_what_is_lost_is_one_fault() -> None:
    """Wherever it is counted, by when it was said or by the events about it."""
    lost = LostBytes("s1", 0, 0, 100, 1, 100, "truncated", START + 40 * MINUTE)
    told = replace(source(landed=((0, 600),)), lost=[lost])
    spoilt = windows(structs.replace(window(1), lost_events=1, lost_bytes=100))
    verdict = reconcile(picture(sources=[told], windows=spoilt))
    assert [each.kind for each in verdict.findings] == [FaultKind.LOST]
    assert verdict.windows[1].state is State.MISSING


def test_as_many_events_by_chance() -> None:
    """Somebody else's are there, and an agent's are not said yet: they need not be the same."""
    other = picture(windows=windows(window(3, agent=WindowSums(EVENTS, 100, 8))))
    assert reconcile(other).windows[3].state is State.CHANGED
    behind = replace(other, agents=[agent(until=START + 2 * MINUTE)])
    assert FaultKind.CHANGED not in {each.kind for each in reconcile(behind).findings}
    assert reconcile(behind).windows[3].state is State.PENDING


def test_as_many_events_as_some_were_shipped_more_than_once() -> None:
    """By an agent that has forgotten the first time, and says the second one of another window."""
    other = windows(window(3, agent=WindowSums(EVENTS, 100, 8)))
    for minute, is_changed in ((3, False), (4, True)):
        again = Twice(0, 5, START + minute * MINUTE, START + (minute + 1) * MINUTE)
        told = replace(source(landed=((0, 600),)), twice=[again])
        kinds = {each.kind for each in reconcile(picture(windows=other, sources=[told])).findings}
        assert (FaultKind.CHANGED in kinds) is is_changed
