"""What the lists say of a small pipeline in which something is missing."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from audit.api.queries import (
    AgentsQuery,
    AlertsQuery,
    HostsQuery,
    LoadsQuery,
    SourcesQuery,
    TopicsQuery,
)
from audit.configuration.config import Inventory
from audit.reconciling.authors import with_author
from audit.reconciling.dead_letters import DeadLetters
from audit.reconciling.findings import FaultKind, KindCount, State
from audit.reconciling.picture import AlteredBatch, Tier, TierKind, TopicPicture
from audit.reconciling.verdict import reconcile
from audit.store.fleet.agents import SilencePatience
from audit.store.rows import Alert, JudgedHour, TopicShare
from audit.store.topics.topics import Overview
from ground.intervals import Interval
from tests.audit.audited_ledger import DAY, KEY, AuditedLedger
from tests.audit.log_entries import load
from tests.audit.store.said import (
    BEGIN,
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

NOW = BEGIN + HOUR
WHOLE = {"topic": TOPIC, "topic_id": TOPIC_ID, "from_time": BEGIN, "to_time": NOW}
AGENT, BROKER, HDFS = Tier(TierKind.AGENT), Tier(TierKind.BROKER), Tier(TierKind.HDFS, ROOT)


def shipped(seq: int, first: int, source_seq: int, minute: int) -> Json:
    """Ten events of a file, and two lines that were filtered."""
    where = {"position": source_seq * 100, "end_position": source_seq * 100 + 1000}
    fates = [excepted("filtered", 2, 20)]
    runs = [run("file", source_seq, 10, path="/log/a", excepted=fates, **where)]
    windows = [window(BEGIN + minute * MINUTE, 10)]
    said = passage(0, first, 10, windows, runs=runs, delays=[0] * 9 + [10])
    beats = [{"until": BEGIN + minute * MINUTE, "topics": [TOPIC], "lag_bytes": 7}]
    time = BEGIN + (minute + 1) * MINUTE
    return entry("agent", "agent-1", seq, time, passages=[said], heartbeats=beats)


def counted(seq: int, first: int, count: int, minute: int) -> Json:
    said = passage(0, first, count, [window(BEGIN + minute * MINUTE, count)])
    return entry("broker", "broker-1", seq, BEGIN + (minute + 1) * MINUTE + 1, passages=[said])


def landed(run_: int, first: int, count: int, *runs: Interval, minute: int = 0) -> Json:
    windows = [window(BEGIN + minute * MINUTE, sum(count for _, count in runs))]
    mine = [run("file", seq, events) for seq, events in runs]
    said = passage(0, first, count, windows, runs=mine)
    return load(run_, said, time=BEGIN + 5 * MINUTE + run_)


def picture(ledger: AuditedLedger) -> TopicPicture:
    return ledger.picture(now=NOW)


def overview(ledger: AuditedLedger, to_hour: int = NOW, hours: int = 1, **more: Any) -> Overview:
    return ledger.reading.overview(TopicsQuery(hours=hours, **more), to_hour, lambda _: False)


def test_a_host_waits_for_what_has_not_landed_of_its_files(ledger: AuditedLedger) -> None:
    """Nothing is suspect: the loader has still to come to it."""

    def of_host(number: int, first: int) -> Json:
        said = passage(0, first, 10, [window(BEGIN, 10)], runs=[run(f"file-{number}", 0, 10)])
        return entry("agent", f"agent-{number}", 0, BEGIN + MINUTE, passages=[said])

    def loaded(number: int, first: int) -> Json:
        said = passage(0, first, 10, [window(BEGIN, 10)], runs=[run(f"file-{number}", 0, 10)])
        return load(number, said, time=BEGIN + 5 * MINUTE + number)

    def states() -> dict[str, State]:
        found = ledger.reading.hosts(KEY, HostsQuery(topic=TOPIC)).items
        return {each.host.removeprefix("host-of-"): each.state for each in found}

    ledger.fold(of_host(1, 0), of_host(2, 10), counted(0, 0, 20, 0), loaded(1, 0))
    assert states() == {"agent-1": State.COMPLETE, "agent-2": State.PENDING}
    ledger.fold(loaded(2, 10))
    assert states() == {"agent-1": State.COMPLETE, "agent-2": State.COMPLETE}


def test_what_a_loader_has_passed_over_has_a_name(ledger: AuditedLedger) -> None:
    ledger.fold(shipped(0, 0, 0, 0), shipped(1, 10, 10, 1), counted(0, 0, 20, 0))
    assert picture(ledger).tiers == (AGENT, BROKER)
    assert picture(ledger).sources == []
    ledger.fold(landed(1, 0, 10, (0, 7)))
    seen = picture(ledger)
    (source,) = seen.sources
    assert (source.source, source.agent, source.host) == ("file", "agent-1", "host-of-agent-1")
    assert source.path == "/log/a"
    assert source.shipped == ((0, 20),)
    assert source.landed == {HDFS: ((0, 7),)}
    (stretch,) = source.stretches
    assert stretch == ("file", 0, 0, 0, 10, 0, 1000, BEGIN, BEGIN + MINUTE, 0)
    assert [(span.tier, span.first, span.next_offset) for span in seen.open] == [(BROKER, 0, 20)]
    (row,) = ledger.reading.sources(KEY, SourcesQuery(topic=TOPIC)).items
    # What has landed has no hole: only stretches know that it is late.
    assert row.state is State.COMPLETE
    ledger.fold(landed(2, 10, 10, (10, 10), minute=1))
    (row,) = ledger.reading.sources(KEY, SourcesQuery(topic=TOPIC)).items
    assert (row.state, row.missing, row.missing_bytes) == (State.PENDING, [(7, 10)], [(0, 1000)])
    (host,) = ledger.reading.hosts(KEY, HostsQuery(topic=TOPIC)).items
    assert (host.host, host.landed, host.state) == ("host-of-agent-1", 17, State.PENDING)
    assert picture(ledger).open == []
    ledger.fold(landed(3, 20, 0, (7, 3)))
    assert picture(ledger).sources == []
    assert ledger.reading.hosts(KEY, HostsQuery(topic=TOPIC)).items[0].state is State.COMPLETE


def test_a_file_that_is_asked_for_says_what_it_waits_for(ledger: AuditedLedger) -> None:
    def arrival() -> tuple[State, list[str], list[str]]:
        found = ledger.reading.sources(KEY, SourcesQuery(topic=TOPIC, sources="other,file"))
        (row,) = found.items
        return row.state, [f"{each.on}: {each.words}" for each in row.waits], found.destinations

    ledger.fold(shipped(0, 0, 0, 0), counted(0, 0, 4, 0))
    on_agent, on_broker = "it has not been shipped to its end", "6 events are not counted by a"
    waits = [f"agent: {on_agent}", f"broker: {on_broker} broker yet"]
    assert arrival() == (State.COMPLETE, waits, [])
    ended = {"topic": TOPIC, "source": "file", "path": "/log/a", "events": 11, "size": 1100}
    ledger.fold(counted(1, 4, 6, 0), entry("agent", "agent-1", 1, NOW, finished=[ended]))
    assert arrival()[1] == ["agent: 1 event is not reported as shipped yet"]
    last = passage(0, 10, 1, [window(BEGIN, 1)], runs=[run("file", 10, 1)])
    ledger.fold(entry("agent", "agent-1", 2, NOW, passages=[last]), counted(2, 10, 1, 0))
    assert arrival() == (State.COMPLETE, [], [])
    ledger.fold(landed(1, 0, 4, (0, 4)))
    assert arrival() == (State.COMPLETE, [f"hdfs: 7 events are not in {ROOT} yet"], [ROOT])
    ledger.fold(landed(2, 4, 7, (5, 6)))
    assert arrival() == (State.PENDING, [], [ROOT]), "one is missing"
    ledger.fold(landed(3, 11, 0, (4, 1)))
    assert arrival() == (State.COMPLETE, [], [ROOT])
    (row,) = ledger.reading.sources(KEY, SourcesQuery(topic=TOPIC)).items
    assert (row.events, row.waits) == (-1, [])


def test_a_file_with_an_unknown_end_does_not_wait_for_it(ledger: AuditedLedger) -> None:
    where = {"topic": TOPIC, "path": "/log/a", "source": "file", "position": 1000}
    unseen = {**where, "from_time": BEGIN, "to_time": BEGIN, "reason": "the archive is truncated"}
    said = entry("agent", "agent-1", 1, NOW, unwatched=[{**unseen, "traces": "vanished"}])
    ledger.fold(shipped(0, 0, 0, 0), counted(0, 0, 10, 0), said)
    (row,) = ledger.reading.sources(KEY, SourcesQuery(topic=TOPIC, sources="file")).items
    assert (row.unread, row.waits, row.gone) == ("the archive is truncated", [], True)


def test_the_events_of_a_damaged_batch_have_names(ledger: AuditedLedger) -> None:
    offsets = {"first": 5, "count": 1}
    spoilt = {"topic": TOPIC, "partition": 0, "offsets": offsets, "reason": "CRC"}
    ledger.fold(shipped(0, 0, 0, 0), entry("hdfs", "loader", 0, NOW, damaged=[spoilt]))
    seen = picture(ledger)
    assert seen.damaged == [AlteredBatch(0, 5, 1, "CRC", BEGIN, BEGIN + MINUTE, found=NOW)]
    assert [stretch.first for stretch in seen.sources[0].stretches] == [0]


def test_what_a_rebuilt_hour_replaces_is_not_counted(ledger: AuditedLedger) -> None:
    anew = landed(2, 0, 10, (0, 4)) | {"rebuilt": [WHOLE]}
    ledger.fold(anew, landed(1, 0, 10, (0, 10)), shipped(0, 0, 0, 0), counted(0, 0, 10, 0))
    assert [window.sums[HDFS].events for window in picture(ledger).windows] == [4]
    (row,) = ledger.reading.hours(KEY, ROOT, from_time=BEGIN, to_time=NOW)
    assert row.rows == 4
    assert [load.rebuilt for load in ledger.reading.loads(LoadsQuery()).items] == [True, False]


def test_lines_count_where_their_events_do(ledger: AuditedLedger) -> None:
    ledger.fold(shipped(0, 0, 0, 3))
    flow = ledger.reading.flow(KEY, BEGIN + 3 * MINUTE, BEGIN + 4 * MINUTE)
    assert (flow.shipped, flow.filtered, flow.events) == (10, 2, 10)
    assert ledger.reading.delays(KEY, BEGIN, NOW)[AGENT][-1] == 10


def test_one_event_of_another_year_takes_no_lines_with_it(ledger: AuditedLedger) -> None:
    in_1999, in_2099 = 915_148_800_000, 4_070_908_800_000
    windows = [window(in_1999, 1), window(BEGIN, 97), window(in_2099, 1)]
    lines = run("file", 0, 99, lines=99, excepted=[excepted("dead_lettered", 1, 10, "no time")])
    ledger.fold(entry("agent", "a", 0, BEGIN, passages=[passage(0, 0, 99, windows, runs=[lines])]))
    flow = ledger.reading.flow(KEY, BEGIN, BEGIN + HOUR)
    assert (flow.shipped, flow.events, flow.dead) == (99, 99, 1)
    assert (flow.read, flow.lost) == (100, 0)  # what was read is what became of it
    assert ledger.reading.flow(KEY, 0, BEGIN).shipped == 0
    cut = {"topic": TOPIC, "kind": "cut", "lines": 7, "from_time": BEGIN, "to_time": BEGIN + MINUTE}
    ledger.fold(entry("agent", "a", 1, BEGIN, altered=[cut]))
    assert ledger.reading.shares(BEGIN) == [TopicShare(CLUSTER, TOPIC, 100, 1, 7)]
    for number, count in enumerate((2, 3)):
        dead = window(BEGIN, 0, excepted=[excepted("dead_lettered", count)])
        passages = [passage(0, 0, count, [dead])]
        load = {"destination": f"{ROOT}{number}", "run": 1, "passages": passages}
        ledger.fold(entry("hdfs", f"loader-{number}", 0, BEGIN, **load))
    assert ledger.reading.shares(BEGIN)[0][-2:] == (3, f"{ROOT}1"), "the greater of two roots"
    assert sum(each.dead for each in reconcile(picture(ledger)).windows) == 1 + 3
    load |= {"run": 2, "passages": [], "rebuilt": [WHOLE]}
    ledger.fold(entry("hdfs", "loader-1", 1, BEGIN, **load))
    assert ledger.reading.shares(BEGIN)[0][-2:] == (2, f"{ROOT}0")
    assert ledger.reading.shares(BEGIN + HOUR) == []


def test_lost_lines_have_a_place(ledger: AuditedLedger) -> None:
    gone = run("file", 10, 0, position=1000, end_position=1500)
    gone["excepted"] = [excepted("lost", -1, 500, "truncated")]
    bare = passage(-1, 0, 0, [], runs=[gone])
    ledger.fold(shipped(0, 0, 0, 0), entry("agent", "agent-1", 1, NOW, passages=[bare]))
    seen = ledger.picture(BEGIN, NOW + HOUR, NOW)
    (source,) = seen.sources
    assert source.lost == (("file", 10, 1000, 1500, -1, 500, "truncated", NOW),)
    assert [window.lost_events for window in seen.windows] == [0, -1]
    flow = ledger.reading.flow(KEY, BEGIN, NOW + HOUR)  # a loss of nobody knows how much
    assert (flow.read, flow.lost, flow.lost_bytes) == (-1, -1, 500)


def test_entries_that_are_missing_are_holes(ledger: AuditedLedger) -> None:
    ledger.fold(shipped(0, 0, 0, 0), shipped(3, 10, 10, 2))
    (hole,) = picture(ledger).holes
    assert (hole.journal, hole.tier, hole.host) == ("agent-1", "agent", "host-of-agent-1")
    assert (hole.seq, hole.count) == (1, 2)
    assert (hole.from_time, hole.to_time) == (BEGIN + MINUTE, BEGIN + 3 * MINUTE)
    ledger.fold(shipped(1, 20, 20, 1), shipped(2, 30, 30, 1))
    assert picture(ledger).holes == []
    ledger.fold(counted(1, 0, 10, 0), landed(0, 0, 0))
    assert [(hole.journal, hole.seq, hole.count) for hole in picture(ledger).holes] == [
        ("broker-1", 0, 1)
    ]


def test_before_the_ledgers_own_beginning_nothing_is_known(ledger: AuditedLedger) -> None:
    ledger.fold(shipped(5, 0, 0, 0), landed(1, 0, 10, (0, 10)), counted(0, 0, 10, 0))
    assert picture(ledger).windows == []
    assert picture(ledger).from_time == BEGIN + HOUR


Heard = tuple[str, str, int]  # tier, journal, the first number that there is

NEW = [("hdfs", f"loader-{each}", 0) for each in range(5)]
OLD = [("agent", "agent-1", 17), ("agent", "agent-2", 9), ("agent", "agent-3", 0)]


@pytest.mark.parametrize(
    ("heard", "known"),
    [
        (OLD, False),
        ([*OLD, *NEW], False),  # runs and counters that begin with the topic say nothing
        ([("agent", "agent-1", 17), ("agent", "agent-2", 0), ("agent", "agent-3", 0)], True),
        ([*NEW, ("broker", "broker-1", 5)], True),
        ([("broker", "broker-1", 5)], False),
    ],
)
def test_who_was_there_before(ledger: AuditedLedger, heard: Sequence[Heard], known: bool) -> None:
    said = [passage(0, 0, 10, [window(BEGIN, 10)])]
    ledger.fold(*(entry(tier, name, seq, BEGIN, passages=said) for tier, name, seq in heard))
    seen = ledger.picture(BEGIN - HOUR, BEGIN + MINUTE, BEGIN + HOUR)
    assert bool(seen.windows) == bool(seen.holes) == known


def test_agents_and_hosts_that_were_never_heard(ledger: AuditedLedger) -> None:
    ledger.store.set_inventory([Inventory(host="host-of-agent-1"), Inventory(host="web-9")], BEGIN)
    ledger.fold(shipped(0, 0, 0, 0))
    assert [(agent.agent, agent.host) for agent in picture(ledger).agents] == [
        ("agent-1", "host-of-agent-1"),
        ("", "web-9"),
    ]
    # Whoever stands there already was expected before.
    ledger.store.set_inventory([Inventory(host="web-9"), Inventory(host="web-8")], BEGIN + HOUR)
    awaited = {agent.host: agent.until for agent in picture(ledger).agents}
    assert (awaited["web-9"], awaited["web-8"]) == (BEGIN, BEGIN + HOUR)
    ledger.store.set_inventory([Inventory(host="web-9")], NOW)
    fleet = ledger.reading.agents(AgentsQuery(), SilencePatience(NOW, MINUTE, DAY))
    assert [(row.host, row.state) for row in fleet.items] == [
        ("web-9", "never"),
        ("host-of-agent-1", "silent"),
    ]
    gone = {"host": "web-9", "agent": "", "since": BEGIN, "reason": "sold", "operator": ""}
    ledger.fold(entry("operator", "operator-1", 0, NOW, retired=[gone]))
    assert picture(ledger).agents[1].required_until == BEGIN
    fleet = ledger.reading.agents(AgentsQuery(search="web"), SilencePatience(NOW, HOUR, DAY))
    assert [(row.state, row.reason) for row in fleet.items] == [("retired", "sold")]


def test_who_has_changed_what_is_judged_stands_in_the_log_once(
    ledger: AuditedLedger, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.store.set_inventory([Inventory(host="web-9")], BEGIN)
    gone = {"host": "web-9", "agent": "", "since": BEGIN, "reason": "so\nld", "operator": "ada"}
    known = {"topic": TOPIC, "partition": -1, "host": "web-3", "reason": "x" * 5_000}
    said = [
        entry("operator", "operator-1", 0, NOW, retired=[gone]),
        entry("operator", "operator-2", 0, NOW, accepted=[{**known, "operator": "bob as ops"}]),
    ]
    with caplog.at_level(logging.INFO):
        ledger.fold(*said)
        ledger.fold(*said)
    retired, accepted = (each for each in caplog.messages if each.startswith("operator "))
    assert (
        f"operator retired cluster={CLUSTER} operator='ada' from='host-of-operator-1' " in retired
    )
    assert f"time={NOW} given={{'host': 'web-9', 'since': {BEGIN}, 'reason': 'so\\nld'" in retired
    assert "operator='bob as ops'" in accepted
    assert "'host': 'web-3'" in accepted
    assert len(accepted) < 1_300
    fleet = ledger.reading.agents(AgentsQuery(), SilencePatience(NOW, HOUR, DAY))
    assert [row.reason for row in fleet.items] == [with_author("so\nld", "ada", NOW)]


def test_topics_by_what_was_said_of_their_hours(ledger: AuditedLedger) -> None:
    ledger.fold(shipped(0, 0, 0, 0))
    assert ledger.reading.open_hours(KEY) == [BEGIN]
    ledger.store.judged([JudgedHour(KEY, BEGIN, "missing", 10, 3, 0, 1, 1, "web-3")])
    (row,) = overview(ledger, search="CLI", hours=2).items
    assert (row.state, row.missing, row.waits) == ("missing", 3, "web-3")
    assert (row.counts, row.states) == ([0, 10], ["complete", "missing"])
    assert row.last_event == BEGIN
    assert overview(ledger, search="%").page.total == 0
    assert overview(ledger, state=State.COMPLETE).page.total == 0
    assert overview(ledger).by_state == {State.MISSING: 1}
    ledger.store.judged([JudgedHour(KEY, BEGIN, "pending", 10, 0, 0, 4, 0, "web-3")])
    assert overview(ledger).by_state == {State.PENDING: 1}
    seen = ledger.reading.overview(TopicsQuery(hours=1), NOW, {KEY}.__contains__)
    assert seen.by_state == {State.COMPLETE: 1}
    (row,) = seen.items
    assert (row.state, row.states) == ("complete", ["complete"])
    assert (row.waits, row.pending_windows) == ("", 0)
    assert (row.deleted, row.events) == (True, 10)
    assert (row.accepted, seen.accepted) == ((), ())
    lost = (KindCount(kind=FaultKind.LOST, findings=1, events=952),)
    dead = DeadLetters(lines=1, events=300)
    ledger.store.judged([JudgedHour(KEY, BEGIN, "complete", accepted=lost, dead=dead)])
    assert ledger.reading.open_hours(KEY) == []
    found = overview(ledger, search="%", hours=2)
    assert (found.accepted, found.items) == (lost, []), "of all, whatever is searched for"
    (row,) = overview(ledger, hours=2).items
    assert (row.accepted, row.dead) == (lost, dead)
    assert (found.dead, overview(ledger, BEGIN, hours=1).dead) == ({KEY: dead}, {})
    assert [ledger.reading.accepted_in(*KEY[:2], hour) for hour in (BEGIN, NOW)] == [lost, ()]
    (later,) = (seen := overview(ledger, NOW + 2 * HOUR, hours=1)).items
    assert (later.state, later.states, seen.by_state) == ("empty", ["complete"], {State.EMPTY: 1})
    assert overview(ledger, BEGIN, hours=1).accepted == (), "of other hours"


def test_the_worst_of_a_topic_hides_nothing_else(ledger: AuditedLedger) -> None:
    """Neither in an hour nor between hours; each kind is counted by itself."""
    ledger.fold(shipped(0, 0, 0, 0))
    changed = KindCount(kind=FaultKind.CHANGED, findings=1, events=1_200)
    missing = KindCount(kind=FaultKind.MISSING, findings=2, events=200)
    unknown = KindCount(kind=FaultKind.UNKNOWN, findings=1, uncounted=1)
    both = JudgedHour(KEY, BEGIN, "changed", pending_windows=1, kinds=(changed, missing))
    before = JudgedHour(KEY, BEGIN - HOUR, "missing", kinds=(missing, unknown))
    ledger.store.judged([both, before])
    (row,) = overview(ledger, hours=2).items
    assert row.state == "changed"
    assert row.having == ["changed", "missing", "unknown", "pending"]
    assert row.kinds == (
        changed,
        KindCount(kind=FaultKind.MISSING, findings=4, events=400),
        unknown,
    )
    seen = overview(ledger, hours=2, search="%")
    assert seen.by_state == {State.CHANGED: 1}
    assert (seen.having, seen.matching) == (dict.fromkeys(row.having, 1), {})
    for state in State:
        seen = overview(ledger, hours=2, state=state)
        assert seen.page.total == (state in row.having) == seen.matching[state], state


def test_an_hour_that_has_not_come_is_in_no_sum(ledger: AuditedLedger) -> None:
    """One event of another producer is enough for it to be there."""
    ledger.fold(shipped(0, 0, 0, 0))
    ahead = BEGIN + 48 * HOUR
    ledger.store.judged([JudgedHour(KEY, BEGIN, "complete"), JudgedHour(KEY, ahead, "pending")])
    (row,) = overview(ledger, ahead, hours=48).items
    assert (row.state, row.pending_windows) == ("complete", 0)
    assert overview(ledger, ahead, hours=48).by_state == {row.state: 1}
    assert overview(ledger, ahead + HOUR, hours=49).by_state == {State.PENDING: 1}
    with pytest.raises(ValueError, match="`sort`"):
        overview(ledger, sort="color")


def test_pages(ledger: AuditedLedger) -> None:
    alerts = [Alert("late", CLUSTER, TOPIC, f"web-{each}", "words", each) for each in range(5)]
    ledger.store.keep_alerts(alerts)
    assert [row.raised for row in ledger.reading.alerts(AlertsQuery(page=2, size=2))[1]] == [2, 1]
    ledger.store.keep_alerts([alerts[4]._replace(resolved=9)])
    page, _ = ledger.reading.alerts(AlertsQuery(state="raised"))
    assert page.total == 4
    _, resolved = ledger.reading.alerts(AlertsQuery(state="resolved"))
    assert [row.resolved for row in resolved] == [9]


def test_an_alert_is_about_an_hour(ledger: AuditedLedger) -> None:
    hours = [Alert("missing", CLUSTER, TOPIC, "", "words", 5, hour=each * HOUR) for each in (1, 2)]
    ledger.store.keep_alerts([*hours, hours[0]._replace(resolved=9)])
    assert ledger.reading.alerts(AlertsQuery(state="raised"))[1] == [hours[1]]
    assert ledger.reading.raised_alerts(9) == [hours[1]]
