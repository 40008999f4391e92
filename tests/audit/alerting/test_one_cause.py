"""What a receiver gets of a cause and of what follows from it, from an audit of a real cluster."""

import os
import signal
import time
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from audit.alerting.answers import NotedAlerts
from audit.api import answers
from audit.store.judged_hours import HOUR
from harness.processes.frozen_processes import freeze
from harness.processes.links import Links
from harness.processes.server_process import free_ports
from harness.processes.waiting import wait_until
from tests.audit.alerting.listener import Listener
from tests.audit.ledger_cluster import LedgerCluster
from tests.audit.page.pipeline_said import Entry, Said, said_later

pytestmark = pytest.mark.long
BROKER = "broker 1 on 127.0.0.1"
NOW = int(time.time() * 1000)
BEGAN = NOW // HOUR * HOUR - 3 * HOUR


def load_said(hdfs: Entry, seq: int, *, failed: bool) -> Entry:
    said = {"topic": "held", "failed": failed, "since": NOW, "reason": "no schema", "cure": ""}
    return said_later(hdfs, seq, loads=[said])


def test_each_cause_is_told_once_and_a_loss_at_once(cluster: LedgerCluster, tmp_path: Path) -> None:
    held, lost = (
        Said(topic, "web-1", f"/{topic}.log", BEGAN, missing=missing, until=NOW + HOUR).entries()
        for topic, missing in (("held", (0, 0)), ("lost", (10, 20)))
    )
    agent, broker, hdfs = held
    (port,) = free_ports(1)
    with Links() as links, Listener() as listener:
        link = links.add(("127.0.0.1", urlsplit(cluster.registry).port or 0), port)
        wanted = {"after": 1, "gather": 0, "silent": 1e6, "keep_for": 2, "webhook": listener.url}
        registry = f"http://127.0.0.1:{port}"
        with cluster.audit(tmp_path, registry=registry, alerts=wanted) as audit:
            cluster.write([agent, broker, load_said(hdfs, 1, failed=False)])

            def heard() -> list[tuple[str, str, str]]:
                """All but for clocks, as entries are of three hours ago."""
                return [said for said in listener.said if said[1] != "clock"]

            topics = partial(audit.get, "topics", answers.TopicsAnswer)
            wait_until(lambda: topics().items, what="the ledger is read, so its schema is known")
            link.cut()
            cluster.write([load_said(hdfs, 2, failed=True), *lost])
            told = {("raised", "away", "registry"), ("raised", "missing", "lost")}
            wait_until(lambda: set(heard()) == told, what="cause and loss are told")
            failing = [each.topic for each in topics().failing_loads]
            assert failing == ["held"], "is known, and not told"
            freeze(cluster.broker.process.pid)
            told.add(("raised", "away", BROKER))
            wait_until(lambda: set(heard()) == told, what="the second cause is told")
            os.kill(cluster.broker.process.pid, signal.SIGCONT)
            link.mend()
            audit.restart()
            ended = {("resolved", "away", "registry"), ("resolved", "away", BROKER)}
            wait_until(lambda: set(heard()) == told | ended, what="both are over")
            alerts = audit.get("alerts", NotedAlerts, state="raised")
            assert [each.kind for each in alerts.waiting] == ["unloaded"], "it has its grace"
            cluster.write([load_said(hdfs, 3, failed=False), hdfs])
            wait_until(lambda: not audit.get("alerts", NotedAlerts).waiting, what="it has mended")
        assert len(heard()) == len(told | ended)
        (away,) = (each for each in listener.posts if each["hosts"] == ["registry"]
                   and each["status"] == "raised")  # fmt: skip
        assert away["holds_up"].startswith("loads of 1 topic, last loaded")
