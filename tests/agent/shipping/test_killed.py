"""A shipping process that is killed at any instant: every line in the log, once, in order."""

import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from client.admin import topics as admin
from client.connection.bootstrap import Bootstrap
from client.connection.brokers import Brokers
from client.producing.delivery import TopicPartition
from cluster.zookeeper_server.server import EmbeddedZooKeeper
from harness.kafka.apache_kafka import ApacheKafka
from harness.penstock.broker import REPOSITORY, BrokerProcess
from tests.agent.shipping.agent_side import events_in_log
from tests.agent.shipping.ledger_reader import check_passages, check_runs, entries_of

KILLS = 300 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 8


@pytest.mark.fuzz
@pytest.mark.timeout(900)
def test_killed_at_random_instants(
    broker: BrokerProcess | ApacheKafka, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic)
    directory = tmp_path / "agent"
    directory.mkdir()
    agent_id, source, lines = ship_and_kill(broker.bootstrap, directory, new_topic, seed=1)
    check(brokers, new_topic, agent_id, source, lines)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(900)
def test_the_broker_is_killed_as_well(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, new_topic: str
) -> None:
    address, directory = f"{zookeeper.address}/{uuid.uuid4().hex}", tmp_path / "agent"
    directory.mkdir()
    with BrokerProcess(tmp_path / "broker", zookeeper=address) as broker:
        with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
            admin.create_topic(brokers, new_topic)
        ended = threading.Event()
        killing = threading.Thread(target=kill_and_start, args=(broker, ended))
        killing.start()
        try:
            agent_id, source, lines = ship_and_kill(
                broker.bootstrap, directory, new_topic, seed=2, kills=KILLS // 2
            )
        finally:
            ended.set()
            killing.join()
        with Brokers(Bootstrap.of(broker.bootstrap), patience_seconds=60) as brokers:
            check(brokers, new_topic, agent_id, source, lines)


def kill_and_start(broker: BrokerProcess, ended: threading.Event) -> None:
    """On a busy machine it is there for longer, as agents need longer to find it."""
    there = 0.7
    while not ended.wait(there):
        broker.process.kill()
        began = time.monotonic()
        broker.start(within=60)
        there = max(0.7, time.monotonic() - began)


def check(brokers: Brokers, topic: str, agent_id: str, source: str, lines: int) -> None:
    """Every line is there once, in order, and the ledger says so."""
    target = TopicPartition(topic, 0)
    found = events_in_log(brokers, target)
    assert [event["message"] for event in found] == [str(number) for number in range(lines)]
    assert [event["header"]["seq"] for event in found] == list(range(lines))
    entries = entries_of(brokers, agent_id)
    check_passages(brokers, entries, target)
    size = sum(len(str(number)) + 1 for number in range(lines))
    check_runs(entries, topic, source, events=lines, size=size)


def ship_and_kill(
    bootstrap: str, directory: Path, topic: str, *, seed: int, kills: int = KILLS
) -> tuple[str, str, int]:
    """The agent, its source, and how many lines that has."""
    module = "tests.agent.shipping.killed_again_and_again"
    run = subprocess.run(
        [sys.executable, "-m", module, bootstrap, str(directory), topic, str(kills), str(seed)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=800,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-5_000:]
    agent_id, source, lines = run.stdout.split()
    return agent_id, source, int(lines)
