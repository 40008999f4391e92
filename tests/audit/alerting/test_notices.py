"""Alerts as notices: what is one message, and what it says."""

import pytest
from msgspec.structs import replace

from audit.alerting.conditions import KINDS, AlertKey, of_clusters, of_programs, of_shares
from audit.alerting.notices import MOST_HOSTS, groups_of, severity_of
from audit.alerting.receivers import Situation
from audit.clusters.disks import with_polled_disks
from audit.clusters.state import BrokerDisks, BrokerFacts, ClusterState
from audit.configuration.config import AlertsConfig, CommandsConfig
from audit.cures.fault_cures import Cure
from audit.cures.program_commands import ProgramCommands
from audit.reconciling.findings import CommandKind
from audit.store.rows import Alert, TopicShare
from ledger.health import Certificate, Disk, Problem, ProblemKind, ZooKeeperSession
from tests.audit.alerting.alerts_made import (
    HOSTILE,
    LINKS,
    NOW,
    SEVEN,
    UNITS,
    missing,
    notice,
    program,
    silent,
)


def test_a_rack_is_one_notice_and_a_day_of_hours_is_one() -> None:
    hosts = [f"web-{each:02}" for each in range(40)]
    alerts = [*silent(*hosts), *missing(hours=range(24)), *missing("orders")]
    hours, orders, rack = (each.notice for each in groups_of(alerts, {}, UNITS, **LINKS).values())
    assert (rack.hosts, rack.hosts_total) == (tuple(hosts[:MOST_HOSTS]), 40)
    assert rack.summary == "dc1: agents are silent (web-00 and 39 more hosts)"
    assert hours.summary == "clicks: lines are missing (24 hours)"
    assert hours.page.endswith(f"topic=clicks&cluster=dc1&from={SEVEN}&to={SEVEN + 86_400_000}")
    assert orders.id != hours.id == notice(missing()).id


def test_what_a_notice_says() -> None:
    said = notice(missing(), lines=4_711, hosts=("web-3",))
    assert said.title == "Critical: clicks: lines are missing (4,711 lines, web-3)"
    assert said.command == "penstock report clicks --hour 2026-11-20T07"
    mends = Cure("penstock load", CommandKind.MENDS)
    assert notice(missing(), cure=mends).command == "penstock load"
    assert notice(missing(), cure=mends._replace(command="long " * 250)).command == said.command
    assert dict(said.facts())["Effect"] == "shows more"
    assert notice(silent("mine"), UP).over(SEVEN).command == ""
    late = notice([Alert("late", "dc1", "clicks", "", "late", SEVEN)], UP)
    held = replace(late, holds_up="loads").over(SEVEN)
    again = ". '/a b/environment' && penstock report clicks --from 2026-11-20T07"
    assert (held.holds_up, held.command) == ("", again)
    assert said.runbook == "https://audit.example.org/runbook#missing"
    cut = notice(missing(), lost_bytes=4_096)
    assert (cut.title, dict(cut.facts())["Lost bytes"]) == (
        "Critical: clicks: lines are missing (4,096 lost bytes)",
        "4,096",
    )
    over = said.over(SEVEN + 7_500_000)
    assert over.title == f"Resolved after 2 h 5 min, mended or accepted: {said.summary}"
    assert over.command == "penstock report clicks --from 2026-11-20T07"
    known = Situation(endings={said.id: "mended"}).over(said, SEVEN + 7_500_000)
    assert known.title == f"Resolved after 2 h 5 min, mended: {said.summary}"
    assert Situation(endings={said.id: "mended"}).over(late, SEVEN).ending == ""


TODAY = "report '' --day today"
LEDGER = "the ledger cannot be read"
AGENT = "systemctl restart penstock-agent  # on web-2"
BROKERS = "systemctl status penstock-broker  # on the host of each broker"
ZOOKEEPER = "systemctl status penstock-zookeeper  # on the host of each server"
UP = ProgramCommands(
    commands=CommandsConfig(environment="/a b/environment", up="/a b"),
    clusters=("dc1", "offline"),
    host="mine",
)
BY_UP = ". '/a b/environment' && penstock up --restart {} --dir '/a b'"


@pytest.mark.parametrize(
    ("kind", "host", "by_units", "by_up"),
    [
        ("silent", "web-2", AGENT, AGENT),
        ("silent", "mine", AGENT.replace("web-2", "mine"), BY_UP.format("agent")),
        ("clock", "mine", "", f"timedatectl set-ntp true && {BY_UP.format('agent')}"),
        ("clock", "web-2", f"timedatectl set-ntp true && {AGENT}", ""),
        ("away", "broker 1", "", BY_UP.format("broker")),
        ("away", "broker 2", *["systemctl restart penstock-broker  # on the host of broker 2"] * 2),
        (
            *("away", "registry"),
            "systemctl restart penstock-registry  # on its host",
            BY_UP.format("registry"),
        ),
        ("away", "", BROKERS, BY_UP.format("broker")),
        ("zookeeper", "", ZOOKEEPER, BY_UP.format("zookeeper")),
        ("late", "", f"penstock {TODAY}", f". '/a b/environment' && penstock {TODAY}"),
        ("disk", "", "", ""),
    ],
)
def test_the_command_for_a_program(kind: str, host: str, by_units: str, by_up: str) -> None:
    alerts = [Alert(kind, "dc1", "", host, "away", SEVEN)]
    shown = notice(alerts, UNITS), notice(alerts, UP)
    for said, command in zip(shown, (by_units, by_up), strict=True):
        assert said.command == command or not command
        looks = command.startswith("systemctl status") or "report" in command
        assert said.command_kind == (None if kind == "disk" else "looks" if looks else "mends") or (
            not command
        )


def test_the_second_cluster_of_a_pipeline_has_programs_of_its_own() -> None:
    registry, loader = (UP.restart(name, cluster="offline") for name in ("registry", "loader"))
    assert registry.command == BY_UP.format("offline-registry")
    assert loader.command == BY_UP.format("loader")


def test_brokers_that_are_away_are_named() -> None:
    one = [BrokerFacts(1, "10.0.0.1", "10.0.0.1:9092", "", True, 6, 2)]
    for state, summary in (
        (ClusterState(unreachable="no answer", brokers=one), "broker 1 on a1 is away"),
        (ClusterState(unreachable="no schema", brokers=one, is_for_schemas=True), LEDGER),
        (ClusterState(away=[1, 2]), "broker 1 on a1 and broker 2 are away"),
    ):
        found = of_clusters({"dc1": state}, [program("broker", name="1")], UP)
        alerts = [Alert(*key[:4], "away", SEVEN) for key in found]
        (group,) = groups_of(alerts, found, UP, **LINKS).values()
        assert group.notice.summary == f"dc1: {summary}"


def test_a_full_disk_needs_room_before_a_restart() -> None:
    disks = {1: BrokerDisks("h", (Disk("/b", 0, 2**30),), frozenset({"clicks"}))}
    clusters = {"dc1": ClusterState(away=[1], disks=disks)}
    for brokers, host in (
        ([program("broker", heard=at, name="1") for at in (1, 2)], "a1"),
        ([], "h"),
    ):
        known = with_polled_disks(brokers, clusters, NOW)
        assert [bool(each.full_disk) for each in known][-2:] in ([False, True], [True])
        found = of_clusters(clusters, known, UNITS)
        found |= of_programs(known, CONFIG, UNITS, {"dc1": NOW}, NOW)
        assert [each.words for each in found.values()] == [
            "broker 1 of dc1 is away, and holds replicas; its disk was full: make room in /b, then "
            "start it",
            f"broker 1 on {host} takes no lines: its disk is full, make room in /b",
        ]
        assert {each.cure.command for each in found.values()} == {f"df -h /b  # on {host}"}
        assert found[AlertKey("disk", "dc1", "", host)].leaderless == {"clicks"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_told(kind: str) -> None:
    said = notice([Alert(kind, "dc1", HOSTILE, HOSTILE, HOSTILE, SEVEN)])
    assert said.severity is severity_of(kind)
    assert all(text.isprintable() for text in (said.title, *said.words, said.command, said.page))


CLUSTER = ClusterState(unreachable="refused", away=[2], registry_away="timeout")
CONFIG = AlertsConfig(certificates=60, disk=2**20)
SHARES = [
    TopicShare("dc1", *each)
    for each in (
        ("few", 99, 99, 99),
        ("at", 1_000, 10, 9),
        ("off", 1_000, 8, 8),
        ("x", 1_000, 11, 0),
        ("y", 1_000, 0, 11),
        ("both", 1_000, 1, 0, 300, "hdfs://nn/logs/"),
    )
]


SESSION = ZooKeeperSession(connected=False, since=NOW, servers=3, serving=2)


PROGRAMS = [
    program("audit", certificates=(Certificate("/old", 1_059_999), Certificate("/new", 1_060_000)),
            disks=(Disk("/full", 2**20 - 1, 2**30), Disk("/enough", 2**20, 2**30))),
    program("agent", heard=1, disks=(Disk("/small", 2**17, 2**21), Disk("/tiny", 4, 31)), problems=(
            Problem(ProblemKind.REJECTED, "/a.yaml", "line 3", 7),
            Problem(ProblemKind.UNREADABLE, "/b", "denied"), Problem(ProblemKind.OTHER, "", "more"),
            Problem(ProblemKind.STOPPED, "c", "none"), Problem(ProblemKind.UNMATCHED, "d", "no"))),
    program("mirror", heard=NOW - 150_001, name="m1"),
    program("mirror", heard=NOW - 150_000, name="m2"),
    program("loader", heard=NOW - 180_001, name="file:/x"),
    program("loader", heard=1, interval_millis=0),
    program("broker", zookeeper=SESSION),
    program("broker", heard=NOW - 180_001, zookeeper=SESSION),
]  # fmt: skip
AT = "1970-01-01 00:1"


def test_what_else_is_worth_an_alert() -> None:
    clusters = {"ok": ClusterState(), "dc1": CLUSTER}
    found = {**of_clusters(clusters, [], UNITS), **of_shares(SHARES, CONFIG, UNITS)}
    found |= of_programs(PROGRAMS, CONFIG, UNITS, {"dc1": NOW}, NOW)
    assert {key[:4]: each.words for key, each in found.items()} == {
        ("away", "dc1", "", ""): "the ledger of dc1 cannot be read: refused",
        ("away", "dc1", "", "broker 2"): "broker 2 of dc1 is away, and holds replicas",
        ("away", "dc1", "", "registry"): "the registry of dc1 does not answer: timeout",
        ("dead", "dc1", "x", ""): "11 of 1,000 lines of dc1/x in the last hour became dead letters,"
        " in x.dead",
        ("dead", "dc1", "both", ""): "301 of 1,000 lines of dc1/both in the last hour became dead"
        " letters: 1 in both.dead, 300 in hdfs://nn/logs/_dead/both",
        ("altered", "dc1", "y", ""): "11 of 1,000 lines of dc1/y in the last hour were altered",
        ("certificate", "", "", "a1"): f"a certificate of the audit on a1 expires {AT}7:39 UTC: "
        "/old",
        ("disk", "", "", "a1"): "the audit on a1 has 1,024.0 KiB of 1.0 GiB left in /full",
        ("disk", "dc1", "", "a1"): "the agent on a1 has 128.0 KiB of 2.0 MiB left in /small",
        ("inputs", "dc1", "", "a1"): "the agent on a1 rejects /a.yaml: line 3; the agent on a1 "
        "cannot read /b: denied; the agent on a1 has more; the agent on a1 has stopped input c: "
        "none",
        ("mirror", "dc1", "", "a1"): f"mirror m1 on a1 was last heard at {AT}4:09 UTC, and should "
        "be heard every minute",
        ("loader", "dc1", "", "a1"): "the loader on a1 into file:/x was last at work at "
        f"{AT}3:39 UTC, and should begin a load every minute",
        ("zookeeper", "dc1", "", "a1"): "broker p on a1 has had no session with ZooKeeper since "
        f"{AT}6:40 UTC",
        ("zookeeper", "dc1", "", ""): "1 of 3 servers of ZooKeeper do not serve, says broker p on "
        "a1",
    }
    kinds = ("dead", "altered")
    raised = [AlertKey(kind, "dc1", each.topic, "") for each in SHARES for kind in kinds]
    kept = of_shares(SHARES, CONFIG, UNITS, raised)
    assert [key.topic for key in kept] == ["few", "few", "at", "at", "x", "y", "both"]
    full = next(key for key in found if key[:2] == ("disk", ""))
    more = of_programs(PROGRAMS, CONFIG, UNITS, {"dc1": NOW}, NOW, raised=found)[full]
    assert more.words.endswith("; the audit on a1 has 1.0 MiB of 1.0 GiB left in /enough")
    cures = {key[0]: each.cure for key, each in found.items() if key[1] and each.cure.command}
    assert {kind: cure.command for kind, cure in cures.items()} == {
        "dead": "penstock consume both.dead --from beginning --to-end --events; spark-sql --conf"
        " spark.sql.catalogImplementation=in-memory -e 'SELECT reason, detail, count(*) FROM"
        " parquet.`hdfs://nn/logs/_dead/both` GROUP BY reason, detail'",
        "disk": "df -h /small  # on a1",
        "inputs": "penstock check-config inputs /a.yaml  # on a1",
        "mirror": "systemctl restart penstock-mirror  # on a1",
        "loader": "systemctl restart penstock-load.timer  # on a1",
        "zookeeper": ZOOKEEPER,
    }
    assert {kind for kind, cure in cures.items() if cure.command_kind == "looks"} == {
        *("dead", "disk", "inputs", "zookeeper"),
    }
    hostile = program("agent", disks=(Disk(HOSTILE, 1, 2**30),),
                      certificates=(Certificate("/$(id)", 1),))  # fmt: skip
    made = of_programs([hostile], CONFIG, UNITS, {"dc1": NOW}, NOW).values()
    assert sorted(each.cure.command for each in made) == [
        "",
        "openssl x509 -noout -subject -enddate -in '/$(id)'  # on a1",
    ]
    assert of_programs(PROGRAMS, CONFIG, UNITS, {}, NOW).keys() == {
        key for key in found if key[0] in {"disk", "certificate"} and not key[1]
    }
