"""A shipping process that is killed at any instant: every line in the log, once, in order."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from client import admin
from client.brokers import Brokers
from client.delivery import TopicPartition
from tests.agent.shipping.agent_side import events_in_log
from tests.agent.shipping.ledger_reader import check_passages, check_runs, entries_of
from tests.apache_kafka import ApacheKafka
from tests.broker_process import REPOSITORY, BrokerProcess

KILLS = 300 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 12


@pytest.mark.fuzz
@pytest.mark.timeout(900)
def test_killed_at_random_instants(
    broker: BrokerProcess | ApacheKafka, brokers: Brokers, tmp_path: Path, new_topic: str
) -> None:
    admin.create_topic(brokers, new_topic)
    directory = tmp_path / "agent"
    directory.mkdir()
    agent_id, source, lines = ship_and_kill(broker.bootstrap, directory, new_topic, seed=1)
    target = TopicPartition(new_topic, 0)
    found = events_in_log(brokers, target)
    assert [event["message"] for event in found] == [str(number) for number in range(lines)]
    assert [event["header"]["seq"] for event in found] == list(range(lines))
    entries = entries_of(brokers, agent_id)
    check_passages(brokers, entries, target)
    size = sum(len(str(number)) + 1 for number in range(lines))
    check_runs(entries, new_topic, source, events=lines, size=size)


def ship_and_kill(
    bootstrap: str, directory: Path, topic: str, *, seed: int
) -> tuple[str, str, int]:
    """The agent, its source, and how many lines that has."""
    module = "tests.agent.shipping.killed_again_and_again"
    run = subprocess.run(
        [sys.executable, "-m", module, bootstrap, str(directory), topic, str(KILLS), str(seed)],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=800,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-5_000:]
    agent_id, source, lines = run.stdout.split()
    return agent_id, source, int(lines)
