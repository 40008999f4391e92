"""Each rule of the verdict by an example, with the words that a person reads."""

import pytest
from msgspec import structs
from msgspec.structs import replace

from audit.findings import FaultKind, State
from audit.picture import (
    Acceptance,
    AlteredBatch,
    ExpectedAgent,
    FileFault,
    Hole,
    LostBytes,
    OffsetSpan,
    TierKind,
    Window,
    WindowSums,
)
from audit.reconciling.verdict import reconcile
from audit.said_by import said_by
from audit.verdicts import TopicVerdict
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


def _words(verdict: TopicVerdict) -> list[str]:
    return [each.words for each in verdict.findings]


def test_complete() -> None:
    verdict = reconcile(picture())
    assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])


def test_skipped_by_the_loader() -> None:
    verdict = reconcile(picture(**_SKIPPED))
    assert _words(verdict) == [
        "web-3: /var/log/shop/a.log, bytes 12,000 to 12,600 (events 120 to 125) are not in"
        " hdfs:/data (clicks-0, offsets 120 to 125)"
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


def test_lost_before_it_was_read() -> None:
    lost = LostBytes("s1", 120, 12_000, 12_600, -1, 600, "truncated", START + MINUTE)
    spoilt = windows(structs.replace(window(1), lost_events=-1, lost_bytes=600))
    verdict = reconcile(
        picture(windows=spoilt, sources=[replace(source(landed=((0, 600),)), lost=[lost])])
    )
    assert _words(verdict) == [
        "web-3: /var/log/shop/a.log, bytes 12,000 to 12,600 were gone before they were read:"
        " truncated"
    ]
    assert verdict.state is State.MISSING
    assert verdict.windows[1].lost == -1


@pytest.mark.parametrize(
    ("fault", "committed", "found", "kind", "words"),
    [
        ("missing", 7, 0, FaultKind.MISSING, "is gone: 7 rows were committed there"),
        ("extra", 0, 7, FaultKind.DUPLICATED, "was written by no load, and has 7 rows"),
        (
            "changed",
            7,
            6,
            FaultKind.MISSING,
            "is not as it was committed: it had 7 rows and has 6 rows",
        ),
        (
            "changed",
            7,
            8,
            FaultKind.DUPLICATED,
            "is not as it was committed: it had 7 rows and has 8 rows",
        ),
        (
            "changed",
            7,
            7,
            FaultKind.CHANGED,
            "is not as it was committed: it had 7 rows and has 7 rows",
        ),
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
        "entries 41 to 42 in the journal agent-of-web-3 of the agent on web-3 never came, written"
        " 2025-11-12 09:00:00 to 09:01:00: what was said there is not known"
    ]
    assert verdict.windows[0].unclaimed == 6
    young = reconcile(replace(spoilt, now=START + 90_000, to_time=START + MINUTE))
    assert young.state is State.PENDING
    assert [each.on for each in young.waits] == ["ledger"]


def test_a_missing_entry_of_the_loader() -> None:
    """What it may have said is missing, is not proven: nobody knows."""
    hole = Hole("loader-1", TierKind.HDFS, "etl", 4, 1, START, START + HOUR)
    verdict = reconcile(picture(**_SKIPPED, holes=[hole]))
    assert {each.kind for each in verdict.findings} == {FaultKind.UNPROVEN}
    assert "not proven to be in hdfs:/data" in "".join(_words(verdict))


def test_nobody_knows_which() -> None:
    spoilt = windows(window(1, hdfs=WindowSums(8, 100, 7)), window(2, hdfs=WindowSums(9, 100, 7)))
    verdict = reconcile(picture(windows=spoilt))
    assert _words(verdict) == [
        "2025-11-12 09:01:00 to 09:03:00: 3 events not in hdfs:/data, and nobody knows which"
    ]


def test_a_file_that_is_finished_without_all_being_said() -> None:
    told = replace(source(landed=((0, 590),), shipped=((0, 590),)), finished_events=600)
    verdict = reconcile(picture(sources=[told]))
    assert _words(verdict) == [
        "web-3: /var/log/shop/a.log: the agent's statement about events 590 to 599 is missing,"
        " although the file is finished"
    ]


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
        "web-9: nothing was ever heard from there",
        "web-3: the agent is done up to 2025-11-12 09:30:00 (last heard at 2025-11-12 10:00:00)",
    ]
    assert verdict.state is State.PENDING
    retired = [replace(late, required_until=START + 30 * MINUTE), replace(never, required_until=0)]
    assert reconcile(picture(agents=retired)).state is State.COMPLETE


KNOWN = said_by("known", "ada", START)
_ANY = Acceptance(-1, (), {}, {}, "", None, None, "known", "ada", START)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"partition": 0, "offsets": ((120, 126),)},
        {"seqs": {"s1": ((100, 200),)}},
        {"bytes": {"s1": ((12_000, 12_600),)}},
        {"host": "web-3", "from_time": START, "to_time": START + HOUR},
    ],
)
def test_accepted(given: dict[str, object]) -> None:
    acceptance = _ANY._replace(**given)  # type: ignore[arg-type]
    verdict = reconcile(picture(**_SKIPPED, accepted=[acceptance]))
    assert verdict.state is State.COMPLETE
    assert [each.accepted for each in verdict.findings] == [KNOWN]
    assert [each.accepted for each in verdict.windows].count(True) == 1
    assert verdict.windows[12].missing == 6


@pytest.mark.parametrize(
    "given",
    [
        {"partition": 1},
        {"offsets": ((0, 119),)},
        {"seqs": {"s2": ((100, 200),)}},
        {"bytes": {"s1": ((12_000, 12_500),)}},
        {"host": "web-4"},
        {"from_time": START + 13 * MINUTE},
        {"to_time": START + 12 * MINUTE},
        {"seqs": {"s1": ((100, 200),)}, "host": "web-4"},
    ],
)
def test_not_accepted(given: dict[str, object]) -> None:
    acceptance = _ANY._replace(**given)  # type: ignore[arg-type]
    assert reconcile(picture(**_SKIPPED, accepted=[acceptance])).state is State.MISSING


def test_accepted_in_part() -> None:
    acceptance = _ANY._replace(offsets=((120, 123),))
    verdict = reconcile(picture(**_SKIPPED, accepted=[acceptance]))
    assert verdict.state is State.MISSING
    assert [(each.offset, each.offsets, each.accepted) for each in verdict.findings] == [
        (123, 3, ""),
        (120, 3, KNOWN),
    ]
