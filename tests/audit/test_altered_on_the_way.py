"""From files to the report, through a real agent, broker and audit: what is altered on its way is
in the report, in its JSON, and in the metrics of agent and audit. No verdict changes."""

import gzip
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from audit.api import answers
from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from harness.penstock.agent import AgentProcess
from harness.penstock.audit import AuditProcess
from harness.processes.waiting import wait_until
from schemas.event_schemas import LOG_LINE, built_in
from schemas.registry_client import RegistryClient
from tests.audit.ledger_cluster import LedgerCluster
from tests.penstock.running import penstock

TEXT: Final = "Grüße aus Zürich, für 7 €\n"
MIB: Final = 1024 * 1024
HOST: Final = "web-1"

# Of each topic: kind, field, lines, count, hint.
EXPECTED: Final[dict[str, set[tuple[object, ...]]]] = {
    "legacy": {("replaced", "", 20, 100, "cp1252")},
    "wide": {("replaced", "", 1, 2, "utf-16")},
    "long": {("cut", "", 1, 2 * MIB + 1, "")},
    "archived": {("unread", "", 0, 1, "")},
    "system": set(),
    "former": {
        ("dropped", name, 1, 1, "")
        for name in ("host", "app", "pid", "facility", "severity", "priority")
    },
}


def write_files(directory: Path) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60)).encode()
    (directory / "legacy.log").write_bytes(TEXT.encode("cp1252") * 20)
    (directory / "wide.log").write_bytes("wide\nlines\n".encode("utf-16"))
    (directory / "long.log").write_bytes(b"short\n" + b"x" * 3 * MIB + b"\nshort\n")
    (directory / "archived.log").write_bytes(b"line\n")
    (directory / "archived.log.1.gz").write_bytes(gzip.compress(b"what nobody reads\n"))
    for name in ("system", "former"):
        (directory / f"{name}.log").write_bytes(b"<34>1 %s host su 812 - - failed\n" % now)


@pytest.fixture(scope="module")
def pipeline(
    tmp_path_factory: pytest.TempPathFactory, cluster: LedgerCluster
) -> Iterator[tuple[AgentProcess, AuditProcess]]:
    logs = tmp_path_factory.mktemp("logs")
    write_files(logs)
    inputs = [
        {
            "paths": [f"{logs}/{name}.log*"],
            "topic": name,
            "format": "syslog" if name in {"system", "former"} else "plain",
            "last_line_timeout": 0.5,
        }
        for name in EXPECTED
    ]
    with ExitStack() as stack:
        brokers = stack.enter_context(Brokers(Bootstrap.of(cluster.bootstrap)))
        client = stack.enter_context(RegistryClient(cluster.registry))
        brokers.topic("_audit", create=True)
        for name in EXPECTED:
            admin.create_topic(brokers, name, partitions=1)
        client.register("former-value", built_in(LOG_LINE).text)
        directory = tmp_path_factory.mktemp("agent") / HOST
        agent = stack.enter_context(
            AgentProcess(
                directory, brokers=cluster.bootstrap, registry=cluster.registry, inputs=inputs
            )
        )
        alerts = {"after": 86_400, "silent": 1e6}
        audit = stack.enter_context(cluster.audit(tmp_path_factory.mktemp("audit"), alerts=alerts))
        wait_until(lambda: found(audit) == EXPECTED, what="everything is remarked")
        yield agent, audit


def found(audit: AuditProcess) -> dict[str, set[tuple[object, ...]]]:
    report = audit.get("report", answers.ReportAnswer, from_=(int(time.time()) - 7200) * 1000)
    return {
        topic.topic: {
            (each.kind, each.name, each.lines, each.count, each.hint) for each in topic.remarks
        }
        for topic in report.topics
        if topic.topic in EXPECTED
    }


def reported(audit: AuditProcess, *more: str) -> str:
    begin = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(time.time() - 7200))
    return penstock("report", "--audit", audit.url, "--from", begin, *more).stdout


def test_the_report_and_its_json_have_every_remark(
    pipeline: tuple[AgentProcess, AuditProcess],
) -> None:
    _, audit = pipeline
    topics = {each["topic"]: each for each in json.loads(reported(audit, "--json"))["topics"]}
    for name in EXPECTED:
        topic = topics[name]
        assert len(topic["remarks"]) == len(EXPECTED[name])
        assert topic["state"] in {"complete", "pending"}, "a remark is no fault"
        for remark in topic["remarks"]:
            assert (remark["host"], remark["input"]) == (HOST, name)
            assert Path(remark["path"]).name.startswith(f"{name}.log")
            assert 0 < remark["first_time"] <= remark["last_time"] <= time.time() * 1000
    shown = reported(audit)
    assert "; 21 lines had invalid characters, 1 line was cut, 6 field values were dropped" in shown
    assert "1 archive was not read" in shown
    assert "20 lines had 100 invalid characters, replaced by U+FFFD; it looks like cp1252" in shown
    assert "1 line was cut at max_line_bytes, 2,097,153 bytes left out" in shown
    assert "archived.log.1.gz on web-1 (input archived): archive not read" in shown
    assert "1 value of field pid dropped: not in the topic's schema" in shown


def test_metrics_of_agent_and_audit_have_them(pipeline: tuple[AgentProcess, AuditProcess]) -> None:
    agent, audit = pipeline
    page = agent.http("/metrics")[1]
    for name, value in {
        'replaced_lines_total{input="legacy",topic="legacy"}': 20,
        'replaced_characters_total{input="legacy",topic="legacy"}': 100,
        'cut_lines_total{input="long",topic="long"}': 1,
        'dropped_values_total{input="former",topic="former"}': 6,
        'unread_files_total{input="archived",topic="archived"}': 1,
    }.items():
        assert re.search(rf"^penstock_agent_{re.escape(name)} {value}\.0$", page, re.MULTILINE), (
            name
        )
    page = audit.ask("/metrics").body.decode()
    for topic, kind, lines, count in (
        ("legacy", "replaced", 20, 100),
        ("long", "cut", 1, 2 * MIB + 1),
        ("former", "dropped", 6, 6),
        ("archived", "unread", 0, 1),
    ):
        labels = f'{{cluster="test",kind="{kind}",topic="{topic}"}}'
        for name, value in (("altered_lines", lines), ("altered", count)):
            (shown,) = re.findall(
                rf"^penstock_audit_topic_{name}{re.escape(labels)} (\S+)$", page, re.MULTILINE
            )
            assert float(shown) == value, (topic, name)
