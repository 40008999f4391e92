"""An audit at work on a real ledger: what it says, what it survives, whom it tells.

Entries are written as agents, brokers and loaders write them; each test has topics of its own.
"""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from audit.api import answers
from audit.reconciling.authors import with_author
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.penstock.audit import AuditProcess
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from ledger.publishing import Entry
from tests.audit.alerting.listener import Listener
from tests.audit.ledger_cluster import LedgerCluster
from tests.audit.page.pipeline_said import DESTINATION, WINDOW, Said, said_later

HOUR: Final = 3_600_000
NOW: Final = int(time.time() * 1000)
BEGAN: Final = (NOW - 3 * HOUR) // HOUR * HOUR


@pytest.fixture(scope="module")
def other(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[BrokerProcess]:
    """Another cluster."""
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    with BrokerProcess(tmp_path_factory.mktemp("other"), zookeeper=address) as broker:
        yield broker


def said(topic: str, missing: tuple[int, int] = (0, 0)) -> Said:
    path = f"/var/log/{topic}.log"
    return Said(topic, f"host-of-{topic}", path, BEGAN, missing=missing, until=NOW + 10 * HOUR)


def state_of(audit: AuditProcess, topic: str) -> str:
    """Empty while nothing is known of it."""
    found = audit.get("topics", answers.TopicsAnswer, search=topic).items
    return next((each.state.value for each in found if each.topic == topic and each.events), "")


def await_state(audit: AuditProcess, topic: str, state: str) -> None:
    wait_until(lambda: state_of(audit, topic) == state, what=f"{topic} is {state}")


def report_of(
    audit: AuditProcess, topic: str, begin: int = BEGAN, end: int = BEGAN + HOUR
) -> answers.ReportAnswer:
    return audit.get("report", answers.ReportAnswer, topic=topic, from_=begin, to=end)


def verdict(audit: AuditProcess, topic: str) -> dict[str, Any]:
    """All that is said of a topic."""
    report = report_of(audit, topic, end=BEGAN + 3 * HOUR)
    found: dict[str, Any] = msgspec.to_builtins(report.topics[0])
    return found


def accept(topic: str) -> Entry:
    """By an operator: whatever is missing of it."""
    header = {"time": NOW, "host": "desk", "app": "penstock", "seq": 0, "position": 0}
    return {
        "header": {**header, "source": f"operator-{uuid.uuid4().hex}"},
        "version": 1,
        "tier": "operator",
        "cluster": "test",
        "accepted": [{"topic": topic, "reason": "known", "operator": "me"}],
    }


@pytest.fixture(scope="module")
def audit(
    tmp_path_factory: pytest.TempPathFactory, cluster: LedgerCluster, other: BrokerProcess
) -> Iterator[AuditProcess]:
    """Of two clusters."""
    clusters = {
        name: {"brokers": [brokers], "registry": cluster.registry}
        for name, brokers in (("test", cluster.bootstrap), ("other", other.bootstrap))
    }
    with cluster.audit(tmp_path_factory.mktemp("audit"), clusters=clusters) as audit:
        yield audit


class Alarmed(NamedTuple):
    """An audit that tells somebody, and looks for hosts."""

    audit: AuditProcess
    listener: Listener
    hosts: Path


@pytest.fixture(scope="module")
def alarmed(tmp_path_factory: pytest.TempPathFactory, cluster: LedgerCluster) -> Iterator[Alarmed]:
    directory = tmp_path_factory.mktemp("alarmed")
    hosts = directory / "hosts.yaml"
    hosts.write_text("- ghost\n")
    with Listener() as listener:
        wanted = {"after": 0, "gather": 0, "silent": 2, "keep_for": 0, "webhook": listener.url}
        settings = {"window": 1, "inventory": str(hosts), "alerts": wanted}
        with cluster.audit(directory, **settings) as audit:
            yield Alarmed(audit, listener, hosts)


def test_a_verdict_is_there_soon_after_the_last_entry(
    cluster: LedgerCluster, audit: AuditProcess
) -> None:
    cluster.write(said("whole").entries())
    await_state(audit, "whole", "complete")
    found = audit.get("topic", answers.TopicAnswer, topic="whole", from_=BEGAN, step=WINDOW)
    assert [each.tier for each in found.tiers] == ["agent", "broker", "hdfs"]
    assert {each.events for each in found.tiers} == {1_000}
    assert len(found.cells) == 100
    assert found.flow.read == found.flow.shipped == 1_000
    assert found.tiers[0].p50 == 439  # 500 of the 700 below 512


def test_of_what_was_written_just_now_nothing_is_complete(
    cluster: LedgerCluster, audit: AuditProcess
) -> None:
    """Its agent may have read it, and not have said so yet. A time long ago in which nothing
    happened waits for nobody, and proves nothing."""
    cluster.write(said("quiet").entries())
    await_state(audit, "quiet", "complete")

    now = int(time.time() * 1000)
    lately = report_of(audit, "quiet", now - HOUR, now)
    assert (lately.state, lately.topics[0].state) == ("pending", "pending")
    assert [each.on for each in lately.topics[0].waits] == ["ledger"]
    before = {"from_": BEGAN - 2 * HOUR, "to": BEGAN - HOUR}
    report = audit.get("report", answers.ReportAnswer, topic="quiet", **before)
    one = audit.get("topic", answers.TopicAnswer, topic="quiet", **before)
    assert (report.state, report.topics[0].state, one.state) == ("empty", "empty", "empty")
    assert report_of(audit, "quiet", end=now).state == "complete", "of what there is so far"


def test_of_no_topic_nothing_is_complete(audit: AuditProcess) -> None:
    nobody = audit.get("report", answers.ReportAnswer, cluster="other")
    assert (nobody.topics, nobody.state) == ([], "pending")


def test_what_is_in_another_hour_is_said(cluster: LedgerCluster, audit: AuditProcess) -> None:
    """Ten events are in a later one at the files, as their headers say: what is said adds up."""
    *others, files = said("moved").entries()
    windows = files["passages"][0]["windows"]
    windows[5]["events"] -= 10
    windows[95]["events"] += 10
    cluster.write([*others, files])
    await_state(audit, "moved", "complete")
    for begin, more in ((BEGAN, -10), (BEGAN + HOUR, 10)):
        times = {"from": begin, "to": begin + HOUR}
        (report,) = report_of(audit, "moved", begin, begin + HOUR).topics
        found = audit.get("topic", answers.TopicAnswer, topic="moved", **times, step=HOUR)
        assert report.elsewhere == sum(each.elsewhere for each in found.cells) == more
        agents, _, landed = (each.events for each in report.tiers)
        assert landed - agents == more


def test_what_is_missing_is_named(cluster: LedgerCluster, audit: AuditProcess) -> None:
    cluster.write(said("holed", missing=(120, 132)).entries())
    await_state(audit, "holed", "missing")
    found = audit.get("findings", answers.Findings, topic="holed")
    (finding,) = found.items
    assert (finding.host, finding.path) == ("host-of-holed", "/var/log/holed.log")
    assert (finding.seq, finding.events) == (120, 12)
    assert (finding.position, finding.end_position) == (1_200, 1_320)
    assert found.topics == ["test/holed"]
    assert audit.get("findings", answers.Findings, host="host-of-holed").items == [finding]
    assert audit.get("findings", answers.Findings, topic="holed", kind="changed").items == []
    report = report_of(audit, "holed")
    assert (report.state, report.topics[0].missing) == ("missing", 12)
    (source,) = audit.get("sources", answers.Sources, topic="holed").items
    assert source.words == [finding.words]
    (host,) = audit.get("hosts", answers.Hosts, topic="holed").items
    assert (host.host, host.state) == ("host-of-holed", "missing")
    wait_until(lambda: "holed" in alerts(audit), what="raised")
    assert finding.words in alerts(audit)["holed"].words
    assert len(finding.id) == 16
    assert alerts(audit)["holed"].finding == finding.id == report.topics[0].findings[0].id
    cluster.write([accept("holed")])
    await_state(audit, "holed", "complete")
    found = audit.get("findings", answers.Findings, cluster="test", accepted="true")
    (finding,) = (each for each in found.items if each.topic == "holed")
    assert finding.accepted == with_author("known", "me", NOW)
    figure = b'penstock_audit_topic_events{cluster="test",destination="",tier="agent",topic="holed"'
    wait_until(lambda: figure in audit.ask("/metrics").body, what="it is a figure")


def alerts(audit: AuditProcess) -> dict[str, answers.AlertRow]:
    """By topic."""
    return {each.topic: each for each in audit.get("alerts", answers.AlertsAnswer).items}


def test_answers_about_topics_have_their_shapes(
    cluster: LedgerCluster, audit: AuditProcess
) -> None:
    cluster.write(said("shapes").entries())
    await_state(audit, "shapes", "complete")
    assert audit.get("agents", answers.AgentsAnswer, search="host-of-shapes").page.total == 1
    loads = audit.get("loads", answers.Loads, topic="shapes")
    assert [each.rows for each in loads.items] == [1_000]
    assert sum(each.rows for each in loads.hours) == 1_000
    brokers = audit.get("brokers", answers.BrokersAnswer, cluster="test")
    assert [each.id for each in brokers.brokers] == [1]
    consumers = {each.topic: (each.upto, each.lag) for each in brokers.consumers}
    assert consumers["shapes"] == (1_000, 0)
    gate = audit.get("hour", answers.HourGate, topic="shapes", hour=BEGAN)
    assert (gate.complete, gate.missing, gate.unknown) == (True, "", "")
    forgotten = audit.get("hour", answers.HourGate, topic="shapes", hour=BEGAN - 8 * 24 * HOUR)
    assert "older than the audit's `retention` of 7 days" in forgotten.unknown
    unknown = audit.get("hour", answers.HourGate, topic="nothing", hour=BEGAN)
    assert not unknown.complete
    assert "nothing" in unknown.missing
    assert unknown.unknown == unknown.missing


def test_a_topic_that_was_deleted_waits_for_nobody(
    cluster: LedgerCluster, audit: AuditProcess
) -> None:
    cluster.write(said("former")._replace(topic_id="b" * 22, until=0).entries())

    def row() -> answers.TopicRow:
        return audit.get("topics", answers.TopicsAnswer, search="former").items[0]

    await_state(audit, "former", "complete")
    wait_until(lambda: row().deleted and not row().waits, what="deleted")
    assert audit.get("topics", answers.TopicsAnswer, search="former", state="pending").items == []
    found = audit.get("topic", answers.TopicAnswer, topic="former", from_=BEGAN, step=WINDOW)
    assert (found.deleted, found.state, found.waits) == (True, "complete", [])
    assert {each.state for each in found.cells} == {"complete"}
    report = report_of(audit, "former")
    assert (report.state, report.topics[0].deleted) == ("complete", True)
    assert "former" not in alerts(audit)  # it is late by now


@pytest.mark.parametrize("landed", [900, 0])
def test_what_had_not_landed_of_a_deleted_topic_is_missing_until_it_is_accepted(
    cluster: LedgerCluster, audit: AuditProcess, landed: int
) -> None:
    """The loader had landed a part of it, or only of its former, so it was complete before. Another
    topic has its name now: a report on the name is about both."""
    topic, topic_id = f"dropped-{landed}", "c" * 22
    lost = said(topic)._replace(topic_id=topic_id)
    former = lost._replace(topic_id="b" * 22, began=BEGAN - HOUR)
    cluster.write([(lost._replace(events=landed) if landed else former).entries()[2]])
    successor = lost._replace(topic_id="d" * 22, began=BEGAN + HOUR).entries()
    for entry in successor:
        entry["header"]["source"] += "-again"
    cluster.write([*lost.entries()[:2], *successor])

    def report() -> answers.TopicReport | None:
        topics = report_of(audit, topic).topics
        return next((each for each in topics if each.topic_id == topic_id), None)

    def is_missing() -> bool:
        known = report()
        return known is not None and known.deleted and known.missing == 1_000 - landed

    def is_raised() -> bool:
        known = audit.get("alerts", answers.AlertsAnswer).items
        about = [each.resolved for each in known if (each.kind, each.topic) == ("missing", topic)]
        return -1 in about

    wait_until(lambda: state_of(audit, topic), what="known")
    wait_until(is_missing, what="missing")
    wait_until(is_raised, what="raised")
    accepted = accept(topic)
    accepted["accepted"][0] |= {"topic_id": topic_id, "from_time": 0}
    cluster.write([accepted])
    wait_until(lambda: not is_raised(), what="resolved")
    assert report() is None, "there is no fault in the former topic"


def test_the_same_is_said_after_a_kill_at_any_time(cluster: LedgerCluster, tmp_path: Path) -> None:
    whole = [said(f"killed-{number}", missing=(number, number * 2)) for number in (1, 2)]
    entries = [entry for each in whole for entry in each.entries()]
    audit = cluster.audit(tmp_path)
    try:
        audit.process.spawn()
        for number, entry in enumerate(entries):
            cluster.write([entry])
            if number % 3 == 2:
                audit.kill()
                audit.process.spawn()
        audit.process.wait_ready(audit.ready, within=60)
        wait_until(
            lambda: all(state_of(audit, each.topic) == "missing" for each in whole),
            within=20,
            what="all are read",
        )
        said_now = {each.topic: verdict(audit, each.topic) for each in whole}
        audit.kill()
        corrupt(audit.data_dir / "audit.db")
        audit.start()
        assert {each.topic: verdict(audit, each.topic) for each in whole} == said_now
        assert "database damaged" in audit.log()
        assert b"rebuilt" in audit.ask("/readyz").body
        assert any("rebuilt" in e for e in audit.get("topics", answers.TopicsAnswer).notices)
        for number, each in enumerate(whole, 1):
            assert said_now[each.topic]["missing"] == number
        wait_until(lambda: alerts(audit).keys() >= said_now.keys(), what="raised")
        began = time.monotonic()
        assert audit.terminate() == 0
        assert time.monotonic() - began < 45
        assert "stopped" in audit.log()
        assert not list(audit.data_dir.glob("*-wal"))
    finally:
        audit.stop()
    with AuditProcess(tmp_path / "alone", settings={"data_dir": str(audit.data_dir)}) as alone:
        assert "Cluster test cannot be read" in notices(alone)[0]
        for each in whole:
            now, before = verdict(alone, each.topic), said_now[each.topic]
            assert (now["state"], now["missing"]) == (before["state"], before["missing"])
        assert {alerts(alone)[topic].resolved for topic in said_now} == {-1}


def corrupt(path: Path) -> None:
    """What was not yet in the file itself is gone, and the file is not what it was."""
    for each in path.parent.glob(f"{path.name}-*"):
        each.unlink()
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"garbage" * 5_000)


def test_damage_is_noticed_while_it_runs(cluster: LedgerCluster, audit: AuditProcess) -> None:
    for path in audit.data_dir.glob("audit.db*"):
        if path.suffix != ".db-shm":
            path.write_bytes(b"\xff" * path.stat().st_size)
    cluster.write(said("after-damage").entries())
    wait_until(lambda: "database damaged" in audit.log(), what="noticed")
    wait_until(audit.ready, what="built anew")
    await_state(audit, "after-damage", "complete")


def test_alerts_are_told_once_whatever_is_killed(cluster: LedgerCluster, alarmed: Alarmed) -> None:
    audit, listener = alarmed.audit, alarmed.listener

    def told() -> list[str]:
        return [status for status, _, topic in listener.said if topic == "alarming"]

    def await_told(*wanted: str) -> None:
        wait_until(lambda: told() == list(wanted), what=f"told {wanted}")
        kept = audit.data_dir / "alert-receivers.json"
        stands = wanted[-1] == "raised"
        wait_until(kept.exists, what="the file is written")
        wait_until(lambda: ('"topic":"alarming"' in kept.read_text()) == stands, what="it is known")

    cluster.write(said("alarming", missing=(10, 20)).entries())
    await_told("raised")
    logged = len(audit.log())
    audit.restart()
    cluster.write([accept("alarming")])
    await_told("raised", "resolved")
    assert "alert resolved kind=silent words='ghost" not in audit.log()[logged:]
    audit.restart()
    alert = alerts(audit)["alarming"]
    assert alert.resolved >= alert.raised
    assert alert.hour == BEGAN
    assert told() == ["raised", "resolved"]


def test_a_host_that_never_reported(alarmed: Alarmed) -> None:
    audit, _, hosts = alarmed
    answer = audit.get("agents", answers.AgentsAnswer, search="ghost")
    assert ([each.state for each in answer.items], answer.expected_hosts) == (["never"], 1)

    def raised() -> list[str]:
        found = audit.get("alerts", answers.AlertsAnswer, state="raised").items
        return [each.words for each in found if each.host == "ghost"]

    wait_until(lambda: bool(raised()), what="raised")
    assert raised() == ["ghost is in the inventory, and was never heard"]
    hosts.write_text("{")
    wait_until(lambda: bool(notices(audit)), what="a bad file is said")
    assert "is invalid, and the former one is used" in notices(audit)[0]
    assert raised()
    hosts.write_text("[]\n")
    wait_until(lambda: not raised(), what="resolved")
    assert notices(audit) == []
    hosts.write_text("- ghost\n")  # as it was


def notices(audit: AuditProcess) -> list[str]:
    return audit.get("topics", answers.TopicsAnswer).notices


def test_a_cluster_that_is_away_holds_up_nobody(
    cluster: LedgerCluster, other: BrokerProcess, audit: AuditProcess
) -> None:
    def is_away() -> bool:
        return any("Cluster other cannot be read" in each for each in notices(audit))

    assert not is_away()
    other.kill()
    wait_until(is_away, what="it is said")
    cluster.write(said("goes-on").entries())
    await_state(audit, "goes-on", "complete")
    other.start()
    wait_until(lambda: not is_away(), what="it is back")


def test_one_audit_has_one_directory(audit: AuditProcess, tmp_path: Path) -> None:
    second = AuditProcess(tmp_path, settings={"data_dir": str(audit.data_dir)})
    taken = AuditProcess(tmp_path / "taken", settings={"port": audit.port})
    with second.process, taken.process:
        second.process.spawn()
        taken.process.spawn()
        for each, why in ((second, "is in use by another audit"), (taken, "choose another `port`")):
            assert each.process.wait(within=60) != 0
            assert why in each.log()


# Tables that no load commits anything of: never green, told with the cure


def loader_says(hdfs: Entry, *, failed: bool, seq: int) -> Entry:
    """Of the topic's loads, by the loader that writes such entries; what a load that succeeded has
    committed comes with another entry."""
    load = {"topic": hdfs["passages"][0]["topic"], "failed": failed, "since": BEGAN}
    if failed:
        load |= {"reason": "1 of 1 records are dead", "cure": "raise dead_share"}
    said = said_later(hdfs, seq, loads=[load])
    said["header"] |= {"source": f"{hdfs['header']['source']}-loads", "time": NOW + seq}
    return said


def test_a_table_that_is_never_loaded_is_not_complete(
    cluster: LedgerCluster, audit: AuditProcess
) -> None:
    """Nobody asks anything of a destination that never spoke of the topic, and all the rest adds
    up."""
    agent, broker, hdfs = said("unloaded").entries()
    cluster.write([agent, broker])
    await_state(audit, "unloaded", "complete")
    cluster.write([loader_says(hdfs, failed=True, seq=0)])
    await_state(audit, "unloaded", "pending")
    found = audit.get("topics", answers.TopicsAnswer, search="unloaded")
    (row,), (load,) = found.items, found.failing_loads
    assert row.load_fails
    assert (load.topic, load.destination, load.since) == ("unloaded", DESTINATION, BEGAN)
    assert (load.reason, load.cure) == ("1 of 1 records are dead", "raise dead_share")
    first = audit.get("topics", answers.TopicsAnswer).items[0]
    assert first.topic == "unloaded", "before all others"
    assert audit.get("loads", answers.Loads, topic="unloaded").failing_loads == [load]
    report = report_of(audit, "unloaded")
    assert (report.state, report.topics[0].failing_loads) == ("pending", [load])
    shown = audit.get("topic", answers.TopicAnswer, topic="unloaded", from_=BEGAN, step=WINDOW)
    assert (shown.state, shown.failing_loads) == ("pending", [load])
    wait_until(lambda: "unloaded" in alerts(audit), what="it is raised")
    alert = alerts(audit)["unloaded"]
    assert (alert.kind, alert.resolved) == ("unloaded", -1)
    assert alert.words.endswith(": 1 of 1 records are dead. What to do: raise dead_share")
    labels = f'cluster="test",destination="{DESTINATION}",topic="unloaded"'
    figure = f"penstock_audit_load_failing_seconds{{{labels}}} ".encode()
    assert figure in audit.ask("/metrics").body
    cluster.write([hdfs, loader_says(hdfs, failed=False, seq=1)])
    await_state(audit, "unloaded", "complete")
    assert audit.get("topics", answers.TopicsAnswer).failing_loads == []
    wait_until(lambda: alerts(audit)["unloaded"].resolved > 0, what="it is resolved")
    assert figure not in audit.ask("/metrics").body


def test_a_topic_that_a_typo_made_is_retired(cluster: LedgerCluster, audit: AuditProcess) -> None:
    """Until an agent ships to it."""
    agent, broker, hdfs = said("typo").entries()
    cluster.write([broker, loader_says(hdfs, failed=True, seq=0)])
    await_state(audit, "typo", "pending")
    whole = {"topic": "typo", "partition": -1, "from_time": 0, "to_time": None, "reason": "typo"}
    operator = said_later(broker, 0, accepted=[whole])
    operator |= {"tier": "operator"}
    operator["header"] |= {"source": "operator-1"}
    cluster.write([operator])
    await_state(audit, "typo", "complete")
    shown = audit.get("topic", answers.TopicAnswer, topic="typo", from_=BEGAN, step=WINDOW)
    assert (shown.deleted, shown.failing_loads) == (True, [])
    agent["header"]["time"] += 1
    cluster.write([agent])
    await_state(audit, "typo", "pending")
    cluster.write([loader_says(hdfs, failed=False, seq=1)])
    await_state(audit, "typo", "complete")


def test_what_was_landed_before_loads_failed_stays_complete(
    cluster: LedgerCluster, audit: AuditProcess
) -> None:
    entries = said("landed-before").entries()
    failing = loader_says(entries[-1], failed=True, seq=7)
    failing["loads"][0]["since"] = NOW
    cluster.write([*entries, failing])
    await_state(audit, "landed-before", "pending")
    before = report_of(audit, "landed-before", end=BEGAN + 2 * HOUR)
    assert (before.state, before.topics[0].failing_loads) == ("complete", [])
    cluster.write([loader_says(entries[-1], failed=False, seq=8)])
    await_state(audit, "landed-before", "complete")
