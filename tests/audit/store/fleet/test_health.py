"""The latest statement of health of each program; how programs are shown and told of."""

from typing import Any

import pytest
from msgspec.structs import replace

from audit.alerting.conditions import SILENT, AlertKey, Condition
from audit.api import queries
from audit.clusters.state import AuditState, BrokerFacts, ClusterState
from audit.configuration.config import AlertsConfig, AuditConfig
from audit.http.endpoints.health import health
from audit.http.endpoints.reports import report
from audit.programs import INPUTS, moment
from audit.reconciling.findings import State
from audit.service.service import Service
from audit.store.fleet.health import MOST_PROGRAMS
from ledger.health import (
    LONGEST_LABEL,
    MOST_DISKS,
    MOST_PROBLEMS,
    HealthProbe,
    Problem,
    ProblemKind,
)
from tests.audit.audited_ledger import AuditedLedger
from tests.audit.store.said import (
    BEGIN,
    CLUSTER,
    HOUR,
    MINUTE,
    TOPIC,
    Json,
    entry,
    passage,
    window,
)

GIB = 2**30
FULL = [{"label": "/var/lib/penstock", "free": 5, "total": 100 * GIB}]
ROOMY = [{"label": "/var/lib/penstock", "free": 50 * GIB, "total": 100 * GIB}]
SESSION = {"connected": True, "since": BEGIN, "servers": 3, "serving": 3}
NO_SESSION = SESSION | {"connected": False, "serving": 2}


def said(tier: str, journal: str, seq: int = 0, time: int = BEGIN, **health: Any) -> Json:
    statement = {"started": BEGIN, "interval_millis": MINUTE, "disks": ROOMY} | health
    return entry(tier, journal, seq, time, health=[statement])


def test_the_latest_statement_of_a_program_is_kept(ledger: AuditedLedger) -> None:
    chunk = [
        said("mirror", "m", name="m1", program_version="1"),
        said("mirror", "m", 1, BEGIN + 2, name="m1", program_version="2"),
        said("agent", "a", name="a name does not matter"),
        said("agent", "a", 1, name="nor another"),
        said("hdfs", "l", name="hdfs://logs"),
        said("operator", "o"),
    ]
    restarted = said("mirror", "m", 2, BEGIN + 1, name="m1", program_version="older")
    for each in ([*chunk], [restarted], [*chunk]):
        ledger.fold(*each)
    known = {each.kind.value: each for each in ledger.reading.programs(BEGIN)}
    assert {kind: each.name for kind, each in known.items()} == {
        "mirror": "m1",
        "agent": "a",
        "loader": "hdfs://logs",
    }
    assert (known["mirror"].health.program_version, known["mirror"].heard) == ("2", BEGIN + 2)
    retired = {"host": "host-of-m", "since": BEGIN, "reason": "sold"}
    ledger.fold(entry("operator", "r", 0, BEGIN + 3, retired=[retired]))
    assert {each.kind for each in ledger.reading.programs(BEGIN)} == {"agent", "loader"}
    assert ledger.reading.programs(BEGIN + 1) == []


def test_what_a_program_says_is_bounded(ledger: AuditedLedger) -> None:
    disks = [{"label": "\0" * 9_999, "free": -1, "total": 2**63 - 1}] * 99
    huge: dict[str, Any] = {
        "name": "n" * 9_999,
        "started": 2**63 - 1,
        "interval_millis": -5,
        "disks": disks,
        "problems": [{"kind": "stopped", "subject": "s" * 999, "text": "t" * 999, "since": -1}]
        * 99,
    }
    session = {"connected": True, "since": -1, "servers": 2**31 - 1, "serving": -(2**31)}
    ledger.fold(said("broker", "b", time=2**62, **huge, zookeeper=session))
    (program,) = ledger.reading.programs(0)
    statement = program.health
    assert (len(program.name), statement.interval_millis) == (LONGEST_LABEL, 0)
    assert [(len(each.label), each.free) for each in statement.disks] == [
        (LONGEST_LABEL, 0)
    ] * MOST_DISKS
    assert (
        statement.problems == (Problem(ProblemKind.STOPPED, "s" * 200, "t" * 400),) * MOST_PROBLEMS
    )
    assert statement.zookeeper is not None
    assert (statement.zookeeper.since, statement.zookeeper.serving) == (0, -1)


@pytest.mark.not_quick("very many programs")
def test_no_more_than_so_many_programs_are_kept(ledger: AuditedLedger) -> None:
    ledger.fold(*(said("agent", f"a{each}", time=BEGIN + each) for each in range(MOST_PROGRAMS)))
    ledger.fold(said("agent", "new", time=BEGIN + HOUR))
    known = {each.name for each in ledger.reading.programs(0)}
    assert (len(known), {"new", "a1"} <= known, "a0" in known) == (MOST_PROGRAMS, True, False)


def beat(agent: str, time: int) -> Json:
    topics = {"until": time, "topics": [TOPIC], "program_version": "0.1"}
    statement = {"started": BEGIN, "disks": FULL if agent == "full" else ROOMY}
    return entry("agent", agent, 0, time, heartbeats=[topics], health=[statement])


NOW = BEGIN + 30 * MINUTE
BROKERS = [
    BrokerFacts(1, "h", "h:9092", "", True, 6, 2),
    BrokerFacts(2, "h", "h:9", "", False, 6, 4),
]
WELL = ClusterState(
    read=True, judged=True, as_of=NOW, looked=NOW, registry_away="", brokers=BROKERS
)
TROUBLED = ClusterState(
    read=True, as_of=NOW, looked=NOW, registry_away="refused", brokers=BROKERS[:1], away=(2,)
)


def answered(ledger: AuditedLedger, standing: ClusterState, **query: Any) -> Any:
    config = AuditConfig(data_dir="/d", cluster=CLUSTER, alerts=AlertsConfig(disk=GIB))
    service = Service(config, AuditState({CLUSTER: standing}), HealthProbe("0.1"))
    service.reads(ledger.reading)
    return health(service, queries.HealthQuery(**query))


def test_all_is_well(ledger: AuditedLedger) -> None:
    ledger.fold(beat("a1", NOW), said("broker", "b", time=NOW, name="1", zookeeper=SESSION))
    ledger.fold(said("mirror", "m", time=NOW, name="m1"), said("hdfs", "l", name="r", time=NOW))
    answer = answered(ledger, WELL)
    assert (answer.state, answer.summary) == (
        "ok",
        "all programs are well: 1 agent, 2 brokers, 1 registry, 1 mirror, 1 loader, ZooKeeper",
    )
    words = {(row.program, row.name): row.words for row in answer.items}
    assert words["broker", "1"] == "leads 2 of 6 partitions"
    assert words["zookeeper", ""] == "1 of 1 brokers are connected, 3 of 3 servers serve"
    assert answer.by_state == {"ok": 8, "away": 0, "warning": 0, "unknown": 0}


def test_what_is_wrong_comes_first(ledger: AuditedLedger) -> None:
    late = NOW - 4 * MINUTE
    ledger.fold(*(beat(name, NOW) for name in ("full", "ok")), beat("quiet", BEGIN))
    ledger.fold(said("mirror", "m", time=late, name="m1"), said("hdfs", "l", name="r", time=late))
    ledger.fold(said("broker", "b", time=NOW, name="1", zookeeper=NO_SESSION))
    answer = answered(ledger, TROUBLED, size=100)
    rows = [(row.state, row.program, row.kind, row.host) for row in answer.items]
    assert rows == [
        ("away", "agents", "silent", ""),
        ("away", "agent", "silent", "host-of-quiet"),
        ("away", "broker", "away", ""),
        ("away", "zookeeper", "zookeeper", ""),
        ("away", "registry", "away", ""),
        ("away", "mirror", "mirror", "host-of-m"),
        ("away", "loader", "loader", "host-of-l"),
        ("warning", "agent", "disk", "host-of-full"),
        ("warning", "broker", "zookeeper", "host-of-b"),
        ("ok", "audit", "", answer.items[-1].host),
    ]
    assert answer.items[0].words == "1 silent; none of the 3 agents signs its statements"
    assert answer.summary.startswith(
        "3 agents: 1 silent; none of the 3 agents signs its statements; "
        f"broker 2 of {CLUSTER}: holds replicas, and does not answer; "
        f"ZooKeeper of {CLUSTER}: without a session: broker 1 on host-of-b; "
    )
    assert answer.summary.endswith("; and 4 more")
    (mirror,) = (row for row in answer.items if row.program == "mirror")
    assert mirror.command == "systemctl restart penstock-mirror  # on host-of-m"
    assert [row.program for row in answered(ledger, TROUBLED, state="warning").items] == [
        "agent",
        "broker",
    ]
    hangs = replace(TROUBLED, away=(), unreachable="no answer")
    (row,) = (row for row in answered(ledger, hangs, size=100).items if row.program == "broker")
    assert (row.state, row.name, row.host) == ("away", "1", "host-of-b")


@pytest.mark.parametrize(
    ("user", "since", "words"),
    [
        ("host-of-quiet", BEGIN + HOUR, "logins of host-of-quiet from 10.0.0.7 {}"),
        ("agents", BEGIN + 1, "logins of agents from 10.0.0.7 {}, which may be its own"),
        ("agents", BEGIN + HOUR, "silent"),
    ],
)
def test_a_silent_agent_says_that_its_logins_are_refused(
    ledger: AuditedLedger, user: str, since: int, words: str
) -> None:
    subject = f"{user} from 10.0.0.7"
    problem = {"kind": "logins", "subject": subject, "text": "wrong password", "since": since}
    ledger.fold(beat("quiet", BEGIN), said("broker", "b", time=NOW, name="1", problems=[problem]))
    rows = {(row.program, row.name): row for row in answered(ledger, WELL).items}
    agent, broker = rows["agent", "quiet"], rows["broker", "1"]
    refused = f"are refused at broker 1 (wrong password), since {moment(since // 1000 * 1000)}"
    assert agent.words == words.format(refused)
    assert agent.command.startswith("systemctl restart") == (words == "silent")
    assert (broker.state, broker.kind) == ("warning", "logins")
    assert broker.words == f"broker 1 on host-of-b refuses logins of {subject}: wrong password"


@pytest.mark.parametrize(
    ("since", "cluster", "unread"),
    [
        (BEGIN, CLUSTER, ["web-1"]),
        (BEGIN + 23 * HOUR, "", ["web-1"]),  # a file that was never read has earlier lines
        (BEGIN + 25 * HOUR, "", []),
        (-1, "", ["web-1"]),
        (BEGIN, "elsewhere", []),
    ],
)
def test_a_report_is_pending_while_inputs_are_not_read(
    ledger: AuditedLedger, since: int, cluster: str, unread: list[str]
) -> None:
    passages = [passage(0, 0, 10, [window(BEGIN, 10)])]
    promise = {"until": NOW, "topics": [TOPIC]}
    ledger.fold(
        entry("agent", "a", 0, NOW, passages=passages, heartbeats=[promise]),
        entry("broker", "b", 0, NOW, passages=passages),
    )
    conditions = {
        AlertKey(INPUTS, CLUSTER, "", "web-1"): Condition("rejected shop.yaml", since=since),
        AlertKey(SILENT, CLUSTER, "", "web-2"): Condition("silent"),
    }
    service = Service(
        AuditConfig(data_dir="/d"), AuditState({CLUSTER: WELL}), alert_conditions=conditions
    )
    service.reads(ledger.reading)
    query = queries.ReportQuery(cluster=cluster, from_time=BEGIN, to_time=BEGIN + MINUTE)
    answer = report(service, query)
    assert [each.host for each in answer.unread] == unread
    if cluster != "elsewhere":
        assert answer.state is (State.PENDING if unread else State.COMPLETE)
