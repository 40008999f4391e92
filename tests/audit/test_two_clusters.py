"""A copy is judged with its origin: from the agents of one cluster to the files of another."""

import random
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.alerting.alerting import Alerting
from audit.clusters.state import AuditState, ClusterState
from audit.configuration.config import AuditConfig, Cluster
from audit.reconciling.findings import FaultKind, State
from audit.reconciling.gate import hour_gate
from audit.reconciling.picture import Acceptance, PartitionPicture, Tier, TierKind, TopicKey
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.verdict import reconcile
from audit.service.judge import Judge, picture_of
from audit.service.ledger_follower import ReadTo
from audit.service.service import Service
from audit.service.writer import Writer
from audit.store.judged_hours import HourVerdict, by_hour
from audit.store.store import AuditStore
from audit.store.topics.copies import OF_ORIGIN, own_offsets
from ground.intervals import Intervals
from harness.processes.waiting import wait_until
from ledger.reading import LedgerChunk, LedgerPositions
from tests.audit.audited_ledger import FIRST, NOW
from tests.audit.store.said import HOUR, MINUTE, TOPIC, Json, body, entry, run
from tests.audit.two_clusters import (
    COPY,
    COPY_ID,
    COPY_KEY,
    LINES,
    OF,
    OFFLINE,
    ORIGIN_KEY,
    SOURCE,
    Said,
    TwoClusters,
    folded,
    judged,
    named,
    of_copy,
    picture,
    stretches,
)

lines = st.sets(st.integers(0, LINES - 2), max_size=30)


def shuffled(said: Sequence[Said], seed: int) -> list[Said]:
    found = list(said)
    random.Random(seed).shuffle(found)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_lines_lost_between_the_clusters_are_named(tmp_path: Path, seed: int) -> None:
    """By host, file and bytes, in whichever order the two ledgers are read. Nothing else is red."""
    told = TwoClusters(uncopied=range(30, 50))
    said = shuffled(told.said(), seed)
    with folded(tmp_path, said) as reading:
        verdict = reconcile(picture(reading))
        origin = reconcile(picture(reading, ORIGIN_KEY))
    assert named(verdict) == set(range(30, 50))
    assert {each.tier for each in verdict.findings} == {"broker"}
    assert verdict.totals.missing == 20
    assert "were not copied from dc1/clicks" in verdict.findings[0].words
    red = {each.start for each in verdict.windows if each.state is not State.COMPLETE}
    assert red == {FIRST + 3 * MINUTE, FIRST + 4 * MINUTE}
    assert origin.state is State.COMPLETE, origin


@pytest.mark.parametrize("seed", range(3))
def test_lines_of_a_copy_that_nobody_loads_have_names(tmp_path: Path, seed: int) -> None:
    """Also those before the first that was copied."""
    lost = {*range(10), *range(30, 50)}
    verdict = judged(tmp_path, shuffled(TwoClusters(uncopied=lost, loaded=False).said(), seed))
    assert named(verdict) == lost
    assert verdict.totals.missing == len(lost)


def test_lines_that_the_mirror_had_copied(tmp_path: Path) -> None:
    told = TwoClusters(uncopied=range(30, 50), mirrored=range(30, 50))
    (finding,) = judged(tmp_path, told.said()).findings
    assert "the mirror had copied them from dc1/clicks" in finding.words


@settings(max_examples=12)
@given(unstored=lines, uncopied=lines, unloaded=lines, seed=st.integers(0, 99))
def test_what_is_missing_is_named_once_where_it_is_first_missing(
    unstored: set[int], uncopied: set[int], unloaded: set[int], seed: int
) -> None:
    told = TwoClusters(unstored, uncopied - unstored, unloaded - unstored - uncopied)
    with TemporaryDirectory() as directory:
        verdict = judged(Path(directory), shuffled(told.said(), seed))
    by_tier = {
        "origin": set(told.unstored),
        "broker": set(told.uncopied),
        "hdfs": set(told.unloaded),
    }
    for tier, truth in by_tier.items():
        some = [each for each in verdict.findings if each.tier == tier]
        assert {n for e in some for n in range(e.seq, e.seq + e.events)} == truth, verdict.findings
    assert all(each.kind is FaultKind.MISSING for each in verdict.findings)
    assert verdict.totals.missing == sum(map(len, by_tier.values()))
    assert (verdict.state is State.COMPLETE) == (not any(by_tier.values()))


@pytest.mark.not_quick("judges hundreds of ledgers")
@settings(max_examples=12)
@given(unstored=lines, unloaded=lines, seed=st.integers(0, 99))
def test_joining_is_as_judging_one_cluster(
    unstored: set[int], unloaded: set[int], seed: int
) -> None:
    """Where all was copied, a copy that is loaded is as a topic that is."""
    told = TwoClusters(unstored=unstored, unloaded=unloaded - unstored, mirror_speaks=False)
    said = told.said()
    alone = [
        (SOURCE, _at_source(each)) for cluster, each in said if (cluster, each["tier"]) in _ALONE
    ]
    with TemporaryDirectory() as directory:
        joined = judged(Path(directory), shuffled(said, seed))
    with TemporaryDirectory() as directory:
        one = judged(Path(directory), alone, ORIGIN_KEY)
    assert _of(joined) == _of(one)


_ALONE = {(SOURCE, "agent"), (SOURCE, "broker"), (OFFLINE, "hdfs")}


def _at_source(said: Json) -> Json:
    of = {"topic": TOPIC, "topic_id": OF["topic_id"]}
    theirs = [each | of for each in said["passages"]]
    return said | {"cluster": SOURCE, "passages": theirs}


def _of(verdict: TopicVerdict) -> object:
    findings = {
        (each.kind, each.tier.replace("origin", "broker"), each.seq, each.events, each.position)
        for each in verdict.findings
    }
    windows = [(each.start, each.state, each.missing, each.pending) for each in verdict.windows]
    return verdict.state, windows, findings, verdict.totals, verdict.hosts


def test_the_gate_of_an_hour_asks_for_the_agents_of_the_origin(tmp_path: Path) -> None:
    behind = TwoClusters(until=FIRST + HOUR - MINUTE)
    with folded(tmp_path / "one", behind.said()) as reading:
        gate = hour_gate(picture(reading))
    assert gate.missing == "agents on host-of-a"
    with folded(tmp_path / "two", TwoClusters().said()) as reading:
        assert hour_gate(picture(reading)).complete
    with folded(tmp_path / "three", TwoClusters(uncopied=[30]).said()) as reading:
        gate = hour_gate(picture(reading))
    assert gate.missing.startswith("a fault to be corrected or accepted: host-of-a: /var/log/a.log")
    with folded(tmp_path / "four", TwoClusters(uncopied=range(150, LINES)).said()) as reading:
        gate = hour_gate(picture(reading))
    assert gate.missing == "the copy, which does not have all of it"


@pytest.mark.parametrize("copied", [150, 10])
def test_a_copy_that_is_behind_is_waited_for(tmp_path: Path, copied: int) -> None:
    """An hour of which the copy has nothing is pending, and not green."""
    verdict = judged(tmp_path, TwoClusters(uncopied=range(copied, LINES)).said())
    assert (verdict.state, verdict.findings) == (State.PENDING, [])
    states = [each.state for each in verdict.windows]
    assert states == [State.COMPLETE] * (copied // 10) + [State.PENDING] * ((LINES - copied) // 10)
    (wait,) = (each.words for each in verdict.waits if each.on == "broker")
    assert wait.startswith(f"{LINES - copied} offsets of dc1/clicks are yet to be copied, and")


def test_an_origin_whose_ledger_nobody_reads(tmp_path: Path) -> None:
    """Green by absence is what it must not be."""
    said = [each for each in TwoClusters().said() if each[0] == OFFLINE]
    with folded(tmp_path, said) as reading:
        asked = (reading, _config(OFFLINE), COPY_KEY, (FIRST, FIRST + HOUR), NOW)
        verdict = reconcile(picture_of(*asked, as_of={OFFLINE: NOW}))
        gate = hour_gate(picture_of(*asked, as_of={OFFLINE: NOW}))
        both = (reading, _config(OFFLINE, SOURCE), *asked[2:])
        unread = reconcile(picture_of(*both, as_of={OFFLINE: NOW}))
    assert verdict.state is State.PENDING
    assert all(each.state is State.PENDING for each in verdict.windows)
    words = verdict.waits[0].words
    assert "this audit does not read the ledger of dc1: add dc1 to `clusters`" in words
    assert not gate.complete
    assert "does not read the ledger" in gate.missing
    assert unread.state is State.PENDING
    assert "has not been read yet" in unread.waits[0].words


def _config(*clusters: str) -> AuditConfig:
    known = {each: Cluster(brokers=("127.0.0.1:1",)) for each in clusters}
    return AuditConfig(data_dir="/unused", clusters=known)


def test_an_absent_origin_holds_up_no_other_verdict(tmp_path: Path) -> None:
    """A source that was not read holds up its copy alone, and that is said of each hour."""
    said: list[HourVerdict] = []
    other = TopicKey(OFFLINE, "views", COPY_KEY.topic_id)
    told = [
        (cluster, each | {"passages": [*each["passages"], _plain(each, other)]})
        if (cluster, each["tier"]) == (OFFLINE, "broker")
        else (cluster, each)
        for cluster, each in TwoClusters().said()
    ]
    with folded(tmp_path, told) as reading:
        judging = Judge(reading, _config(OFFLINE, SOURCE))
        judging.judge({OFFLINE: NOW}, said.extend)
    states = {(each.judged.key, each.judged.hour): each.judged.state for each in said}
    assert states[other, FIRST] == State.COMPLETE
    assert states[COPY_KEY, FIRST] == State.PENDING
    assert not any(key == ORIGIN_KEY for key, _ in states)


@pytest.mark.not_quick("judges for seconds")
def test_a_ledger_that_takes_long_to_be_read_holds_up_no_other(tmp_path: Path) -> None:
    """What was read of it goes on coming, and its end does not."""
    config = _config(OFFLINE, SOURCE)
    standing = AuditState({name: ClusterState() for name in (OFFLINE, SOURCE)})
    service = Service(config, standing)
    told = threading.Event()
    with closing(AuditStore.open(tmp_path)) as store, closing(store.reading()) as reading:
        judging = Judge(reading, config)
        alerting = Alerting(store, reading, config, standing)
        service.reads(reading)
        rounds = Writer(service, store, judging, alerting)
        working = threading.Thread(target=rounds.run, args=(told,))
        working.start()
        try:
            for cluster, each in TwoClusters().said():
                rounds.hand_over(cluster, LedgerChunk(body([each]), LedgerPositions(), to_come=1))
            rounds.hand_over(OFFLINE, ReadTo(NOW))
            wait_until(lambda: standing.clusters[OFFLINE].judged, within=60, what="judged")
            (row,) = [each for each in reading.open_hours(COPY_KEY) if each == FIRST]
        finally:
            told.set()
            rounds.end()
            working.join()
    assert row == FIRST
    assert not standing.clusters[SOURCE].judged
    assert not standing.read_since


def _plain(said: Json, key: TopicKey) -> Json:
    """The same, of a topic that is no copy."""
    passage: Json = said["passages"][0]
    return passage | {"topic": key.topic, "origin": None}


def test_what_is_said_of_the_origin_has_its_copy_judged_again(tmp_path: Path) -> None:
    last = sorted(TwoClusters().said(), key=lambda each: each[0] == SOURCE)
    with closing(AuditStore.open(tmp_path)) as store:
        *_, touched = [
            store.fold(cluster, body([each]), LedgerPositions()) for cluster, each in last
        ]
    assert {key for key, _ in touched.hours} == {ORIGIN_KEY, COPY_KEY}


def test_faults_of_the_origin_raise_no_alert_of_the_copy(tmp_path: Path) -> None:
    with folded(tmp_path, TwoClusters(unstored=range(30, 40)).said()) as reading:
        copy = by_hour(reconcile(picture(reading)), [FIRST])[0]
        origin = by_hour(reconcile(picture(reading, ORIGIN_KEY)), [FIRST])[0]
    assert copy.judged.state == origin.judged.state == State.MISSING
    assert list(origin.faults) == [State.MISSING]
    assert not copy.faults


def test_a_copy_of_two_origins_is_not_judged(tmp_path: Path) -> None:
    said = TwoClusters().said()
    cluster, each = next(each for each in said if each[1]["tier"] == "mirror")
    other = each["passages"][0] | {"origin": OF | {"topic_id": "C" * 22}}
    said.append((cluster, each | {"header": each["header"] | {"seq": 1}, "passages": [other]}))
    verdict = judged(tmp_path, said)
    assert verdict.state is State.PENDING
    assert "which offsets belong to which is unknown" in verdict.waits[0].words


@pytest.mark.parametrize("by_agents", [True, False])
def test_what_was_written_into_the_copy_and_cut_off_again(tmp_path: Path, by_agents: bool) -> None:
    """Lines that an agent had shipped there are missing; what the source has brought since, at the
    same offsets, is not."""
    of_the_copy = {"topic": COPY, "topic_id": COPY_ID, "partition": 0}
    own = of_the_copy | {
        "offsets": [{"first": LINES - 20, "count": 30}],
        "windows": [{"start": FIRST, "events": 30, "bytes": 300, "crc_sum": 7}],
        "leader_epoch": 1,
    }
    ways: list[tuple[str, str, Json]] = [("broker", "o2", {})]
    if by_agents:
        shipped = run("s9", 0, 30, position=0, end_position=300, path="/var/log/b.log")
        ways.append(("agent", "b", {"runs": [shipped]}))
    said = []
    for tier, journal, more in ways:
        passage = of_copy(own | more, origin=None)
        said.append((OFFLINE, entry(tier, journal, 0, FIRST + 1, passages=[passage])))
    gone = of_the_copy | {"leader_epoch": 2, "first": LINES - 20, "count": 30}
    gone |= {"resumes": LINES - 20, "reason": "cut off"}
    said.append((OFFLINE, entry("broker", "o2", 1, FIRST + 2, withdrawn=[gone])))
    verdict = judged(tmp_path, [*said, *TwoClusters().said()])
    if by_agents:
        assert (verdict.state, verdict.totals.missing) == (State.MISSING, 30), verdict
        assert ["cut off" in each.words for each in verdict.findings] == [True]
    else:
        assert verdict.state is State.COMPLETE, verdict
        assert not verdict.findings


def opened(
    unstored: Sequence[int] = (), uncopied: Sequence[int] = (), until: int = FIRST + 31 * MINUTE
) -> list[Said]:
    """The copy is opened behind its last line, and ten lines more are shipped to it and stored,
    but for those of these numbers."""
    own = [*range(LINES, LINES + 10)]
    stored = [each for each in own if each not in unstored]
    of_the_copy: Json = {"topic": COPY, "topic_id": COPY_ID, "partition": 0, "origin": None}

    def passage(numbers: Sequence[int]) -> Json:
        size, crc = 10 * len(numbers), sum(each + 1 for each in numbers)
        window = {"start": FIRST + LINES // 10 * MINUTE, "events": len(numbers)}
        offsets = [{"first": first, "count": count} for first, count in stretches(numbers)]
        windows = [window | {"bytes": size, "crc_sum": crc}]
        return of_the_copy | {"offsets": offsets, "windows": windows}

    runs = [run("s2", 0, 10, position=0, end_position=100, path="/var/log/own.log")]
    beat = {"until": FIRST + HOUR, "topics": [COPY], "program_version": "1", "lag_bytes": 0}
    told = [passage(own) | {"runs": runs}]
    time = FIRST + 30 * MINUTE
    return [
        *TwoClusters(uncopied=uncopied, loaded=False, until=until).said(),
        (OFFLINE, entry("agent", "own", 0, time, passages=told, heartbeats=[beat])),
        (OFFLINE, entry("broker", "o", 1, time, passages=[passage(stored)])),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_that_was_opened_is_judged_on_both_sides_of_that(tmp_path: Path, seed: int) -> None:
    """Its origin's agents are not waited for from then on."""
    whole = judged(tmp_path / "whole", shuffled(opened(), seed))
    assert whole.state is State.COMPLETE, whole
    assert not whole.findings
    lost = judged(tmp_path / "lost", shuffled(opened([203, 204], [30, 31]), seed))
    assert lost.state is State.MISSING
    named_ = {(each.path, each.seq, each.events) for each in lost.findings}
    assert named_ == {("/var/log/a.log", 30, 2), ("/var/log/own.log", 3, 2)}


def test_what_goes_on_to_the_origin_is_not_expected_of_a_copy_that_was_opened(
    tmp_path: Path,
) -> None:
    said = opened()
    cluster, each = next(e for e in said if e[0] == SOURCE and e[1]["tier"] == "broker")
    more = {"start": FIRST + 40 * MINUTE, "events": 5, "bytes": 50, "crc_sum": 5}
    later = each["passages"][0] | {"offsets": [{"first": LINES, "count": 5}], "windows": [more]}
    said.append((cluster, each | {"header": each["header"] | {"seq": 1}, "passages": [later]}))
    with folded(tmp_path, said) as reading:
        verdict = reconcile(picture(reading))
    assert not verdict.findings, verdict.findings
    assert verdict.state is State.COMPLETE, verdict


@pytest.mark.parametrize("seed", range(3))
def test_two_topics_that_are_copies_of_each_other(tmp_path: Path, seed: int) -> None:
    """A switch, and back: what was written to the copy has come to the origin."""
    said = opened(until=FIRST + HOUR)
    own = next(e for _, e in said if e["tier"] == "broker" and e["header"]["seq"] == 1)
    of = {"cluster": OFFLINE, "topic": COPY, "topic_id": COPY_KEY.topic_id}
    back = own["passages"][0] | {"topic": TOPIC, "topic_id": OF["topic_id"], "origin": of}
    header = own["header"] | {"source": "b"}
    said.append((SOURCE, own | {"header": header, "cluster": SOURCE, "passages": [back]}))
    with folded(tmp_path, shuffled(said, seed)) as reading:
        for key in (COPY_KEY, ORIGIN_KEY):
            verdict = reconcile(picture(reading, key))
            assert verdict.state is State.COMPLETE, verdict
            assert not verdict.findings


def test_a_copy_that_is_one_again_is_judged_as_one(tmp_path: Path) -> None:
    said = TwoClusters().said()
    cluster, each = next(e for e in said if e[0] == OFFLINE and e[1]["tier"] == "broker")
    header = each["header"] | {"seq": 1}
    again = each["passages"][0] | {"offsets": [{"first": LINES, "count": 1}]}
    with folded(tmp_path, [*said, (cluster, each | {"header": header, "passages": [again]})]) as r:
        assert not picture(r).unjoined
        assert picture(r).partitions[0].claimed[Tier(TierKind.ORIGIN, SOURCE)] == ((0, LINES),)


@pytest.mark.parametrize(
    ("brokers", "marked", "own"),
    [
        (((0, 10),), ((0, 10),), ()),
        (((0, 10),), ((0, 6),), ((6, 1 << 60),)),
        (((0, 10),), (), ((0, 1 << 60),)),
        (((0, 30),), ((0, 10), (20, 30)), ((10, 20),)),
        (((0, 5), (7, 10), (12, 30)), ((20, 30),), ((0, 20),)),
        (((5, 10), (12, 15)), ((5, 10),), ((12, 1 << 60),)),
    ],
)
def test_which_offsets_are_a_copys_own(
    brokers: Intervals, marked: Intervals, own: Intervals
) -> None:
    partition = PartitionPicture(0, {Tier(TierKind.BROKER): brokers})
    assert own_offsets([partition], {0: marked}) == ({0: own} if own else {})


def test_what_was_accepted_at_the_origin_counts_for_what_is_wrong_there(tmp_path: Path) -> None:
    with folded(tmp_path, TwoClusters(range(30, 40), range(50, 60)).said()) as reading:
        whole = picture(reading)
    known = Acceptance(-1, (), {}, {}, "", None, None, "known", "", NOW, OF_ORIGIN)
    verdict = reconcile(replace(whole, accepted=[known]))
    assert {each.tier: bool(each.accepted) for each in verdict.findings} == {
        "origin": True,
        "broker": False,
    }
    assert Tier(TierKind.ORIGIN, SOURCE) in verdict.tiers
