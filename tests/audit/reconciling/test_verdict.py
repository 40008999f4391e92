"""Each rule of the verdict by an example, with the words that a person reads; and what looks like a
fault and is none."""

from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from audit.reconciling.authors import with_author
from audit.reconciling.findings import FaultKind, State
from audit.reconciling.picture import (
    Acceptance,
    AlteredBatch,
    ExpectedAgent,
    FileFault,
    Hole,
    LostBytes,
    OffsetSpan,
    PartitionPicture,
    Tier,
    TierKind,
    TopicKey,
    Twice,
    UnwatchedTime,
    Window,
    WindowSums,
)
from audit.reconciling.topic_verdict import TopicVerdict, Wait, distinct
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
    stretch,
    window,
    windows,
)

_SKIPPED = {
    "windows": windows(window(12, hdfs=WindowSums(4, 100, 7))),
    "partitions": [claimed(hdfs=((0, 120), (126, 600)))],
    "open": [OffsetSpan(BROKER, 0, 120, 130, START + 12 * MINUTE, START + 13 * MINUTE, 10)],
    "sources": [source(landed=((0, 120), (126, 600)), stretches=[stretch(120, 6)])],
}


NOT_AS_COMMITTED = "is not as it was committed: it had 7 rows and has"


def _words(verdict: TopicVerdict) -> list[str]:
    return [each.words for each in verdict.findings]


def test_complete() -> None:
    verdict = reconcile(picture())
    assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])


def test_skipped_by_the_loader() -> None:
    verdict = reconcile(picture(**_SKIPPED))
    assert _words(verdict) == [
        "web-3: /var/log/shop/a.log, bytes 12,000 to 12,600 (events 120 to 125) are not in"
        " hdfs:/data: a load went on without them, as the brokers no longer had them (clicks-0,"
        " offsets 120 to 125)"
    ]
    assert [each.start for each in verdict.windows if each.state is not State.COMPLETE] == [
        START + 12 * MINUTE
    ]


def test_dropped_by_a_broker() -> None:
    gone = WindowSums(4, 40, 3)
    spoilt = picture(
        windows=windows(window(12, broker=gone, hdfs=gone)),
        partitions=[claimed(broker=((0, 120), (126, 600)))],  # the loader went past the gap
        sources=[source(landed=((0, 120), (126, 600)), stretches=[stretch(120, 6)])],
    )
    verdict = reconcile(spoilt)
    assert _words(verdict) == [
        "web-3: /var/log/shop/a.log, bytes 12,000 to 12,600 (events 120 to 125) are not at the"
        " brokers (clicks-0, offsets 120 to 125)"
    ]
    assert verdict.windows[12].missing == 6


@pytest.mark.parametrize(
    ("fault", "committed", "found", "kind", "words"),
    [
        ("missing", 7, 0, FaultKind.MISSING, "is gone: 7 rows were committed there"),
        ("extra", 0, 7, FaultKind.DUPLICATED, "was written by no load, and has 7 rows"),
        ("changed", 7, 6, FaultKind.MISSING, f"{NOT_AS_COMMITTED} 6 rows"),
        ("changed", 7, 8, FaultKind.DUPLICATED, f"{NOT_AS_COMMITTED} 8 rows"),
        ("changed", 7, 7, FaultKind.CHANGED, f"{NOT_AS_COMMITTED} 7 rows"),
    ],
)
def test_landed_files(fault: str, committed: int, found: int, kind: FaultKind, words: str) -> None:
    told = FileFault(HDFS, "clicks/hour=9/a.parquet", START, fault, committed, found)
    verdict = reconcile(picture(file_faults=[told]))
    assert [(each.kind, each.words) for each in verdict.findings] == [
        (kind, f"clicks/hour=9/a.parquet in hdfs:/data {words}")
    ]
    assert {each.state for each in verdict.windows} == {kind.state}
    later = picture(
        file_faults=[told], from_time=START + HOUR, to_time=START + 2 * HOUR, windows=[]
    )
    assert not reconcile(later).findings
    # A file is accepted by its name, never with its hour or the whole topic: it may go later.
    for given, is_accepted in (
        ({"from_time": START, "to_time": START + HOUR}, False),
        ({"file": "hdfs:/data/clicks/hour=9/b.parquet"}, False),
        ({"file": "hdfs:/data/clicks/hour=9/a.parquet"}, True),
        ({"from_time": 0}, False),
    ):
        known = picture(file_faults=[told], accepted=[_ANY._replace(**given)])
        assert [bool(each.accepted) for each in reconcile(known).findings] == [is_accepted]


def test_damaged_batch() -> None:
    told = AlteredBatch(0, 120, 6, "its CRC does not match")
    spoilt = picture(
        damaged=[told],
        sources=[source(landed=((0, 120),), stretches=[stretch(120, 6)])],
        partitions=[claimed(hdfs=((0, 120),))],
        windows=[window(each) for each in range(12)]
        + [window(each, hdfs=WindowSums()) for each in range(12, 60)],
        open=[OffsetSpan(BROKER, 0, 120, 600, START + 12 * MINUTE, START + HOUR, 480)],
    )
    verdict = reconcile(spoilt)
    assert _words(verdict) == [
        "web-3: /var/log/shop/a.log, bytes 12,000 to 12,600 (events 120 to 125) are not as they"
        " were written: its CRC does not match (clicks-0, offsets 120 to 125)"
    ]
    assert [each.state for each in verdict.windows[11:14]] == [
        State.COMPLETE,
        State.CHANGED,
        State.PENDING,
    ]


def test_a_doubled_row_and_a_changed_batch() -> None:
    spoilt = windows(
        window(1, hdfs=WindowSums(12, 100, 7)), window(5, broker=WindowSums(10, 100, 8))
    )
    verdict = reconcile(picture(windows=spoilt))
    assert _words(verdict) == [
        "2025-11-12 09:01:00 to 09:02:00: 2 events too many in hdfs:/data",
        "2025-11-12 09:05:00 to 09:06:00: as many events are at the brokers as before, but their"
        " CRCs differ",
        "2025-11-12 09:05:00 to 09:06:00: as many events are in hdfs:/data as before, but their"
        " CRCs differ",
    ]
    assert verdict.windows[1].excess == 2
    assert verdict.windows[5].changed


def test_a_missing_entry() -> None:
    hole = Hole("agent-of-web-3", TierKind.AGENT, "web-3", 41, 2, START, START + MINUTE)
    said = windows(window(0, agent=WindowSums(4, 40, 3)))
    spoilt = picture(holes=[hole], windows=said, partitions=[claimed(agent=((6, 600),))])
    verdict = reconcile(spoilt)
    assert _words(verdict) == [
        "entries 41 to 42 in the journal agent-of-web-3 of the agent on web-3 never arrived,"
        " written 2025-11-12 09:00:00 to 09:01:00: the content is unknown"
    ]
    assert verdict.windows[0].unclaimed == 6
    young = reconcile(replace(spoilt, now=START + 90_000, to_time=START + MINUTE))
    assert young.state is State.PENDING
    assert [each.on for each in young.waits] == ["ledger"]
    twice = [*young.waits, replace(young.waits[0], since=-1), Wait(on="ledger", words="else")]
    assert distinct(twice) == [young.waits[0], twice[2]] == distinct(twice[1::-1] + twice[2:])


def test_a_missing_entry_of_the_loader() -> None:
    """What it may have said is missing, is not proven: nobody knows."""
    hole = Hole("loader-1", TierKind.HDFS, "etl", 4, 1, START, START + HOUR)
    verdict = reconcile(picture(**_SKIPPED, holes=[hole]))
    assert {each.kind for each in verdict.findings} == {FaultKind.UNPROVEN}
    assert "not proven to be in hdfs:/data" in "".join(_words(verdict))


_LESS = [window(each, hdfs=WindowSums(10 - each, 100, 7)) for each in (1, 2)]


@pytest.mark.parametrize(
    ("spoilt", "words"),
    [
        (
            {"windows": windows(*_LESS)},
            "2025-11-12 09:01:00 to 09:03:00: 3 events not in hdfs:/data; which ones is unknown",
        ),
        (
            {
                "sources": [
                    replace(source(landed=((0, 590),), shipped=((0, 590),)), finished_events=600)
                ]
            },
            "web-3: /var/log/shop/a.log: the agent's statement about events 590 to 599 is missing,"
            " although the file is finished",
        ),
    ],
)
def test_what_has_no_better_name(spoilt: dict[str, Any], words: str) -> None:
    assert _words(reconcile(picture(**spoilt))) == [words]


def test_windows_of_unequal_length() -> None:
    """The loader's are of five minutes."""
    alike = WindowSums(EVENTS, 100, 7)
    short = [
        Window(START + each * MINUTE, MINUTE, {AGENT: alike, BROKER: alike}) for each in range(10)
    ]
    long = [
        Window(START, 5 * MINUTE, {HDFS: WindowSums(50, 500, 35)}),
        Window(START + 5 * MINUTE, 5 * MINUTE, {HDFS: WindowSums(49, 500, 35)}),
    ]
    both = sorted([*short, *long], key=lambda each: each.start)
    verdict = reconcile(picture(windows=both))
    assert [(each.length, each.missing) for each in verdict.windows] == [
        (5 * MINUTE, 0),
        (5 * MINUTE, 1),
    ]


def test_agents_are_waited_for() -> None:
    never = ExpectedAgent("", "web-9", 0, 0)
    late = agent(until=START + 30 * MINUTE)
    verdict = reconcile(picture(agents=[late, never]))
    assert [each.words for each in verdict.waits] == [
        "web-9: no agent has ever reported from there",
        "web-3: the agent is done up to 2025-11-12 09:30:00 (last heard at 2025-11-12 10:00:00)",
    ]
    assert verdict.state is State.PENDING
    retired = [replace(late, required_until=START + 30 * MINUTE), replace(never, required_until=0)]
    assert reconcile(picture(agents=retired)).state is State.COMPLETE


KNOWN = with_author("known", "ada", START + HOUR)
_ANY = Acceptance(-1, (), {}, {}, "", None, None, "known", "ada", START + HOUR)


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ({}, True),
        ({"time": START + 12 * MINUTE}, False),  # it arose later
        ({"time": START, "from_time": 0, "offsets": ((120, 126),)}, False),
        ({"time": START, "seqs": {"s1": ((100, 200),)}}, True),
        ({"time": START, "to_time": START + HOUR}, True),
        ({"partition": 0, "offsets": ((120, 126),)}, True),
        ({"seqs": {"s1": ((100, 200),)}}, True),
        ({"bytes": {"s1": ((12_000, 12_600),)}}, True),
        ({"host": "web-3", "from_time": START, "to_time": START + HOUR}, True),
        ({"partition": 1}, False),
        ({"offsets": ((0, 119),)}, False),
        ({"seqs": {"s2": ((100, 200),)}}, False),
        ({"bytes": {"s1": ((12_000, 12_500),)}}, False),
        ({"host": "web-4"}, False),
        ({"from_time": START + 13 * MINUTE}, False),
        ({"to_time": START + 12 * MINUTE}, False),
        ({"seqs": {"s1": ((100, 200),)}, "host": "web-4"}, False),
    ],
)
def test_accepted(given: dict[str, object], accepted: bool) -> None:
    acceptance = _ANY._replace(**given)  # type: ignore[arg-type]
    verdict = reconcile(picture(**_SKIPPED, accepted=[acceptance]))
    assert verdict.state is (State.COMPLETE if accepted else State.MISSING)
    assert [bool(each.accepted) for each in verdict.findings] == [accepted]
    assert [each.accepted for each in verdict.windows].count(True) == accepted
    assert verdict.windows[12].missing == 6


def test_accepted_in_part() -> None:
    acceptance = _ANY._replace(offsets=((120, 123),))
    verdict = reconcile(picture(**_SKIPPED, accepted=[acceptance]))
    assert verdict.state is State.MISSING
    assert [(each.offset, each.offsets, each.accepted) for each in verdict.findings] == [
        (123, 3, ""),
        (120, 3, KNOWN),
    ]


# A truncation

_CUT = LostBytes("s1", 120, 12_000, 12_600, -1, 600, "truncated", START + MINUTE)
_AT = "web-3", "a1", "/var/log/shop/a.log"
_END = UnwatchedTime(*_AT, "s1", 12_600, START + 10_000, START + 61_000, "truncated", "")


@pytest.mark.parametrize(
    ("end", "accepted", "expected"),
    [
        (_END, (), {"lost": ""}),
        (_END, (12_000, 12_601), {"lost": KNOWN}),
        (_END, (12_000, 12_600), {"lost": KNOWN, "unknown": ""}),
        (_END, (12_600, 12_601), {"lost": "", "unknown": KNOWN}),
        (_END._replace(source="s2"), (), {"lost": "", "unknown": ""}),
        (_END._replace(position=12_601), (), {"lost": "", "unknown": ""}),
        (_END._replace(from_time=START - 24 * HOUR), (), {"lost": "", "unknown": ""}),
    ],
)
def test_a_truncation_is_one_finding(
    end: UnwatchedTime, accepted: Any, expected: dict[str, str]
) -> None:
    """The lost bytes and what followed them unseen, unless they are accepted apart."""
    cut = replace(source(landed=((0, 600),)), lost=[_CUT])
    counts = windows(structs.replace(window(1), lost_events=-1, lost_bytes=600))
    known = [_ANY._replace(bytes={"s1": (accepted,)})] if accepted else []
    verdict = reconcile(picture(windows=counts, sources=[cut], unwatched=[end], accepted=known))
    findings = {each.kind.value: each for each in verdict.findings}
    assert {kind: each.accepted for kind, each in findings.items()} == expected
    assert verdict.windows[1].lost == -1
    lost = findings["lost"]
    assert f"{lost.words};".startswith(
        "web-3: /var/log/shop/a.log, bytes 12,000 to 12,600 were gone before they were read:"
        " truncated;"
    )
    assert lost.unseen_end == (len(findings) == 1)
    if lost.unseen_end:
        assert (lost.from_time, lost.to_time) == (START + 10_000, START + MINUTE + 1_000)
        assert lost.words.endswith("last seen whole at 2025-11-12 09:00:10")
    assert (verdict.totals.kinds == ()) == (KNOWN in expected.values() and lost.unseen_end)


# What is no fault

_NONE = WindowSums()
_BEFORE = LostBytes("s1", 0, 0, 100, 1, 100, "truncated", START - HOUR)


def test_a_quiet_topic() -> None:
    quiet = picture(windows=[], partitions=[])
    assert reconcile(quiet).state is State.COMPLETE
    now = START + 30 * MINUTE
    live = replace(quiet, now=now, agents=[agent(until=now - 90_000)])
    assert reconcile(live).state is State.COMPLETE
    silent = replace(live, agents=[agent(until=now - 10 * MINUTE)])
    assert [each.on for each in reconcile(silent).waits] == ["agent"]


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


@pytest.mark.parametrize(
    "other",
    [
        {  # a topic without agents
            "tiers": (BROKER, HDFS),
            "windows": [window(each, agent=_NONE) for each in range(60)],
            "partitions": [claimed(agent=())],
            "agents": [],
        },
        {  # other producers where no broker counts
            "tiers": (AGENT, HDFS),
            "windows": windows(window(3, hdfs=WindowSums(15, 150, 12))),
            "partitions": [claimed(agent=((0, 30), (35, 600)))],
        },
        {  # brokers that began to count later: the loader had read what was there before
            "tiers": (BROKER, HDFS),
            "windows": windows(*(window(each, agent=_NONE, broker=_NONE) for each in range(10))),
            "partitions": [claimed(broker=((100, 600),))],
        },
        # A broker speaks of many topics: where all is spoken of, no entry of it is missed.
        {"holes": [Hole("broker-1", TierKind.BROKER, "kafka-1", 7, 1, START, START + MINUTE)]},
        # Files that were shipped before the ledger begins.
        {
            "sources": [
                replace(source(landed=((0, 600),), shipped=((300, 600),)), finished_events=600)
            ]
        },
        # Sources are those of all times, and so are their faults.
        {"sources": [replace(source(landed=((0, 600),)), lost=[_BEFORE])]},
    ],
)
def test_what_is_no_fault(other: dict[str, Any]) -> None:
    verdict = reconcile(picture(**other))
    assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])


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
