"""Events that are in other windows at one tier than at another, events that were sent again, and
those that somebody has counted or told twice: what offsets prove is not called missing or doubled
because windows have other sums."""

from pathlib import Path
from typing import Any

import pytest

from audit.http.endpoints.totals import tier_totals
from audit.reconciling.findings import FaultKind, State
from audit.reconciling.gate import hour_gate
from audit.reconciling.picture import TierKind
from audit.reconciling.verdict import reconcile
from harness.penstock.made_batches import NOON, WINDOW, agents_batch, foreign_batch, header_of
from ledger.counting.batches import Counting, PartitionCount
from ledger.counting.entries import Speaker, entries_of
from tests.audit import log_entries
from tests.audit.audited_ledger import FIRST, AuditedLedger, judged, pictured
from tests.audit.log_entries import TIME, each_order, in_orders, load, shipped
from tests.audit.store.said import (
    CLUSTER,
    HOUR,
    MINUTE,
    ROOT,
    TOPIC,
    TOPIC_ID,
    Json,
    entry,
    excepted,
    passage,
    run,
    window,
)

OTHER = FIRST + 2 * HOUR + MINUTE
EARLIER = FIRST - 30 * HOUR


def agent(number: int, first: int, events: int, seq: int) -> Json:
    return log_entries.agent(number, shipped(seq, first, events, epoch=-1))


def broker(number: int, first: int, *windows: Json, journal: str = "broker", **more: Any) -> Json:
    count = sum(each["events"] for each in windows) + more.get("no_events", 0)
    said = passage(0, first, count, list(windows), **more)
    return entry("broker", journal, number, TIME, passages=[said])


def loader(number: int, first: int, count: int, *windows: Json, **more: Any) -> Json:
    """The bytes and CRCs are in the windows of the batches, as everywhere."""
    return load(number, passage(0, first, count, list(windows), **more))


def rows(start: int, events: int, batches: int = 0, **more: Any) -> Json:
    """So many rows; and the batches of so many events."""
    return window(start, events, bytes=batches * 10, crc_sum=batches * 7) | more


@pytest.mark.parametrize("other", [OTHER, EARLIER])
def test_a_foreign_producer_with_a_time_of_its_own(tmp_path: Path, other: int) -> None:
    """206 events: the brokers know their records' times, the loader those in their headers."""
    said = [
        agent(0, 0, 100, 0),
        broker(0, 0, window(TIME, 306)),
        loader(0, 0, 306, rows(TIME, 100, 306), rows(other, 206), runs=[run("file", 0, 100)]),
    ]
    verdict = judged(tmp_path, [said], hours=(-40, 3))
    assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])
    by_start = {each.start: each for each in verdict.windows}
    assert (by_start[TIME].elsewhere, by_start[other].elsewhere) == (-206, 206)
    for each in verdict.windows:
        agents, _, files = (one.events for one in each.sums)
        lacking = each.missing + each.pending
        assert agents - lacking + each.excess + each.unclaimed + each.elsewhere == files


def test_foreign_events_do_not_hide_what_brokers_have_not_counted(tmp_path: Path) -> None:
    """A hundred of them, and the last twenty of the agent's seventy are behind them all."""
    said = [
        agent(0, 0, 50, 0),
        agent(1, 150, 20, 50),
        broker(0, 0, window(TIME, 150)),
        loader(0, 0, 150, rows(TIME, 150, 150), runs=[run("file", 0, 50)]),
    ]
    verdict = judged(tmp_path / "behind", [said])
    assert (verdict.state, verdict.findings) == (State.PENDING, [])
    (wait,) = verdict.waits
    assert wait.words.startswith("the brokers have yet to count 20 offsets of 1 partition")
    assert hour_gate(pictured(tmp_path / "asked", [said], (0, 1))).missing == (
        "the brokers, which have not counted all of it"
    )
    said += [
        broker(1, 150, window(TIME, 20)),
        loader(1, 150, 20, rows(TIME, 20, 20), runs=[run("file", 50, 20)]),
    ]
    verdict = judged(tmp_path / "done", [said])
    assert (verdict.state, verdict.findings, verdict.waits) == (State.COMPLETE, [], [])


def test_events_of_other_times_do_not_hide_what_has_not_landed(tmp_path: Path) -> None:
    """There are more rows than the brokers have counted, and twenty of these are not among them."""
    said = [
        agent(0, 100, 20, 0),
        broker(0, 0, window(OTHER, 100)),
        broker(1, 100, window(TIME, 20)),
        loader(0, 0, 100, rows(OTHER, 0, 100), rows(TIME, 100)),
    ]
    verdict = judged(tmp_path, [said])
    by_start = {each.start: each for each in verdict.windows}
    assert by_start[TIME].waits == ["hdfs"]
    assert by_start[OTHER].waits == []
    assert (verdict.state, verdict.findings) == (State.PENDING, [])


def test_what_is_lacking_among_them_is_missing_all_the_same(tmp_path: Path) -> None:
    """Offsets that the loader has passed over."""
    said = [
        agent(0, 0, 100, 0),
        broker(0, 0, window(TIME, 306)),
        loader(0, 0, 100, rows(TIME, 100, 100), runs=[run("file", 0, 100)]),
        loader(1, 150, 156, rows(OTHER, 156), rows(TIME, 0, 156)),
    ]
    verdict = judged(tmp_path, [said])
    (finding,) = verdict.findings
    assert (finding.kind, finding.offset, finding.offsets) == (FaultKind.MISSING, 100, 50)
    assert verdict.totals.missing == 50


def test_rows_that_are_fewer_than_their_records_are_missing(tmp_path: Path) -> None:
    """The loader claims what it has not: nothing is proven, so sums count."""
    said = [
        agent(0, 0, 100, 0),
        broker(0, 0, window(TIME, 306)),
        loader(0, 0, 306, rows(TIME, 100, 306), rows(OTHER, 200), runs=[run("file", 0, 100)]),
    ]
    verdict = judged(tmp_path, [said])
    assert State.MISSING in {each.state for each in verdict.windows}


def test_records_that_were_planned_and_became_nothing_are_missing(tmp_path: Path) -> None:
    """A loader that calls them no events."""
    said = [agent(0, 0, 202, 0), broker(0, 0, window(TIME, 202)), loader(0, 0, 202, no_events=202)]
    verdict = judged(tmp_path, [said])
    assert verdict.state is State.MISSING
    assert verdict.totals.missing == 202
    assert {each.host for each in verdict.findings} == {"host-of-agent"}


def test_other_bytes_are_changed_whatever_the_times(tmp_path: Path) -> None:
    said = [
        agent(0, 0, 100, 0),
        broker(0, 0, window(TIME, 100)),
        loader(0, 0, 100, window(TIME, 100, crc_sum=1), runs=[run("file", 0, 100)]),
    ]
    assert judged(tmp_path, [said]).state is State.CHANGED


def test_offsets_that_a_loader_has_committed_twice(tmp_path: Path) -> None:
    """By two runs: those of one file are named, the others counted; each of them once."""
    landed = [run("file", 0, 100)]
    said = [
        agent(0, 0, 100, 0),
        broker(0, 0, window(TIME, 150)),
        loader(0, 0, 150, window(TIME, 150), runs=landed),
        loader(1, 0, 150, window(TIME, 150), runs=landed),
    ]
    verdict = judged(tmp_path, [said])
    assert verdict.state is State.DUPLICATED
    assert sorted((each.events, each.source) for each in verdict.findings) == [
        (50, ""),
        (100, "file"),
    ]
    assert verdict.totals.duplicated == sum(each.excess for each in verdict.windows) == 150


def sent_again(dropped: int) -> list[Json]:
    """Forty events of a hundred; so many of them the loader has dropped."""
    duplicates = {"excepted": [excepted("duplicate", dropped)]} if dropped else {}
    return [
        agent(0, 0, 100, 0),
        agent(1, 100, 40, 60),
        broker(0, 0, window(TIME, 140)),
        loader(0, 0, 140, rows(TIME, 140 - dropped, 140, **duplicates), runs=[run("file", 0, 100)]),
    ]


def test_what_was_sent_twice_and_landed_once_is_no_fault(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [sent_again(40)])
    (finding,) = verdict.findings
    assert finding.words == "host-of-agent: /log/file, events 60 to 99 were shipped more than once"
    assert finding.harmless == "sent twice, landed once"
    assert verdict.state is State.COMPLETE
    assert verdict.totals.duplicated == 0


@pytest.mark.parametrize("dropped", [0, 39])
@each_order
def test_what_landed_twice_as_well_is_one(tmp_path: Path, order: int, dropped: int) -> None:
    """All tiers have as many: nobody but the agent could tell."""
    verdict = judged(tmp_path, in_orders(sent_again(dropped))[order])
    assert verdict.state is State.DUPLICATED
    shipped_twice = [each for each in verdict.findings if "shipped more than once" in each.words]
    assert [(each.kind, each.source, each.seq) for each in shipped_twice] == [
        (FaultKind.DUPLICATED, "file", 60)
    ]


def test_as_long_as_it_is_not_loaded_nobody_knows(tmp_path: Path) -> None:
    said = sent_again(0)
    said[-1] = loader(0, 0, 100, rows(TIME, 100, 100), runs=[run("file", 0, 100)])
    verdict = judged(tmp_path, [said])
    assert (verdict.state, verdict.findings) == (State.PENDING, [])


@each_order
def test_an_agent_that_says_again_what_it_has_shipped(tmp_path: Path, order: int) -> None:
    """Its journal was damaged: the same events at the same offsets are no others."""
    again = [
        agent(0, 0, 100, 0),
        agent(1, 60, 40, 60),
        broker(0, 0, window(TIME, 100)),
        landed(100),
    ]
    verdict = judged(tmp_path, in_orders(again)[order])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def test_a_foreign_producer_that_replays(tmp_path: Path) -> None:
    """Records of today with events of yesterday: the loader knows them, and drops them."""
    dropped = rows(EARLIER, 0, excepted=[excepted("duplicate", 100)])
    said = [
        agent(0, 0, 100, 0),
        broker(0, 0, window(TIME, 100), window(OTHER, 100)),
        loader(0, 0, 100, window(TIME, 100), runs=[run("file", 0, 100)]),
        loader(1, 100, 100, dropped, rows(OTHER, 0, 100)),
    ]
    verdict = judged(tmp_path, [said], hours=(-40, 3))
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


def rebuilt(load: Json) -> Json:
    """The same, in place of what the hour had."""
    hour = {"topic": TOPIC, "topic_id": TOPIC_ID, "from_time": FIRST, "to_time": FIRST + HOUR}
    return load | {"rebuilt": [hour]}


def foreign(number: int, elsewhere: int = 100) -> Json:
    """A load of a hundred records whose own times are others."""
    return loader(number, 0, 100, rows(TIME, 0, 100), rows(TIME + 20 * MINUTE, elsewhere))


@each_order
@pytest.mark.parametrize("times", [1, 2])
def test_an_hour_that_is_rebuilt_as_it_was(tmp_path: Path, order: int, times: int) -> None:
    """It proves as much as what it has replaced."""
    anew = [rebuilt(foreign(number)) for number in range(1, times + 1)]
    said = [broker(0, 0, window(TIME, 100)), foreign(0), *anew]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])
    assert [each.elsewhere for each in verdict.windows] == [-100, 100]


@each_order
@pytest.mark.parametrize("events", [99, 101])
def test_an_hour_that_is_rebuilt_with_other_sums(tmp_path: Path, order: int, events: int) -> None:
    said = [broker(0, 0, window(TIME, 100)), foreign(0), rebuilt(foreign(1, events))]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert verdict.windows[-1].state is State.DUPLICATED


def test_an_hour_that_is_rebuilt_and_proved_nothing_before(tmp_path: Path) -> None:
    said = [broker(0, 0, window(TIME, 100)), foreign(0, 99)]
    assert judged(tmp_path / "before", [said]).state is not State.COMPLETE
    said.append(rebuilt(foreign(1, 99)))
    assert judged(tmp_path / "after", [said]).state is not State.COMPLETE


def test_rows_that_became_dead_letters_when_an_hour_was_rebuilt(tmp_path: Path) -> None:
    """They are accounted for, whatever they are now."""
    dead = rows(TIME, 90, 100, excepted=[excepted("dead_lettered", 10)])
    said = [
        broker(0, 0, window(OTHER, 100)),
        loader(0, 0, 100, rows(OTHER, 0, 100), rows(TIME, 100)),
        rebuilt(loader(1, 0, 100, dead)),
    ]
    verdict = judged(tmp_path, [said])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


# Whoever lost his journal counts again, and cuts elsewhere


def landed(count: int) -> Json:
    return loader(0, 0, count, window(TIME, count), runs=[run("file", 0, count)])


def counted(*stretches: tuple[int, int], tier: str = "broker") -> list[Json]:
    """First and count of each, by a journal of its own."""
    return [
        broker(0, first, window(TIME, count), journal=f"{tier}-{at}") | {"tier": tier}
        for at, (first, count) in enumerate(stretches)
    ]


@pytest.mark.parametrize(("read_again", "events"), [(60, 100), (50, 40)])
def test_what_a_mirror_has_copied(tmp_path: Path, read_again: int, events: int) -> None:
    """It is killed amid its work. What the next one reads again it tells batch by batch; what the
    first one had told of it together is read between two of these. Its offsets tell how much it
    was; or else, that it was more than it has said."""
    mirrors = counted((0, 40), (30, 60), (40, read_again), tier="mirror")
    chunks = [[agent(0, 0, 100, 0), *counted((0, 100)), landed(100)], *([e] for e in mirrors)]
    verdict = judged(tmp_path, chunks)
    assert verdict.state is State.COMPLETE
    shown = {each.tier: each for each in tier_totals(verdict, {})}
    assert (shown["mirror"].events, shown["mirror"].at_least) == (events, events < 100)
    assert (shown["broker"].events, shown["broker"].at_least) == (100, False)


@each_order
@pytest.mark.parametrize(
    "stretches", [[(0, 60), (40, 60)], [(40, 60), (0, 60)], [(20, 30), (0, 100), (0, 40)]]
)
def test_passages_that_overlap(
    tmp_path: Path, stretches: list[tuple[int, int]], order: int
) -> None:
    said = [*counted(*stretches), agent(0, 0, 100, 0), landed(100)]
    verdict = judged(tmp_path, in_orders(said)[order])
    assert (verdict.state, verdict.findings) == (State.COMPLETE, [])


@pytest.mark.parametrize("loaded", [0, 30])
def test_what_is_not_loaded_yet_is_waited_for(tmp_path: Path, loaded: int) -> None:
    """Sums say nothing of these windows, and offsets say that more is to come."""
    said = [*counted((0, 60), (40, 60)), agent(0, 0, 100, 0), landed(loaded)]
    verdict = judged(tmp_path, [[each] for each in said])
    assert (verdict.state, verdict.findings) == (State.PENDING, [])
    assert [each.waits for each in verdict.windows] == [["hdfs"]]
    (wait,) = verdict.waits
    assert wait.words.startswith(f"{ROOT} has yet to load {100 - loaded} offsets of 1 partition")


def test_what_is_missing_is_missing_where_sums_do_not_tell(tmp_path: Path) -> None:
    """The loader goes on at the offsets after those that it has left out."""
    said = [*counted((0, 60), (40, 60)), agent(0, 0, 100, 0), landed(90)]
    said.append(loader(1, 100, 1, window(TIME, 0)))
    (finding,) = judged(tmp_path, [[each] for each in said]).findings
    assert (finding.kind, finding.tier) == (FaultKind.MISSING, TierKind.HDFS)
    assert (finding.path, finding.seq) == ("/log/file", 90)
    assert (finding.events, finding.offset) == (10, 90)


# Events of all times in one batch

SPEAKER = Speaker(
    source="broker-1", host="h", app="penstock-broker", cluster=CLUSTER, window_millis=WINDOW
)
AGENTS, FOREIGN = 100, 9_000
YEAR = 366 * 24 * HOUR


@pytest.mark.not_quick("very many entries")
def test_a_batch_of_ten_thousand_years(ledger: AuditedLedger) -> None:
    count = PartitionCount(TOPIC, TOPIC_ID, 0, 0)
    counting = Counting(WINDOW)
    ours = agents_batch([NOON + at for at in range(AGENTS)])
    times = [NOON + (at - FOREIGN // 2) * YEAR for at in range(FOREIGN)]
    for batch in (ours, foreign_batch(times, base=AGENTS)):
        counting.count(count, header_of(batch), lambda batch=batch: batch, gaps_are_empty=False)
    windows = [
        {"start": start, "events": each.events, "bytes": each.bytes, "crc_sum": each.crc_sum}
        for start, each in count.windows.items()
    ]
    said = next(each for each in windows if each["start"] == NOON)
    mine = {**said, "events": AGENTS, "bytes": len(ours), "crc_sum": header_of(ours).crc}
    runs = [run("file", 0, AGENTS, path="/a", position=0, end_position=1_000)]
    promise = {"until": NOON + 2 * HOUR, "topics": [TOPIC], "program_version": "1"}
    landed = passage(0, 0, AGENTS + FOREIGN, windows, runs=[run("file", 0, AGENTS)])
    entries = [
        entry(
            *("agent", "agent", 0, NOON + WINDOW),
            passages=[passage(0, 0, AGENTS, [mine], runs=runs)],
            heartbeats=[promise],
        ),
        *entries_of([count], SPEAKER, seq=0, now_millis=NOON + WINDOW),
        load(0, landed, time=NOON + 2 * WINDOW),
    ]
    ledger.fold(*entries)
    for hour in (NOON - HOUR, NOON, times[FOREIGN // 2 + 5] // HOUR * HOUR, 0):
        picture = ledger.picture(hour, hour + HOUR, NOON + 2 * HOUR)
        assert reconcile(picture).findings == []
        assert all(each.length <= HOUR for each in picture.windows)
