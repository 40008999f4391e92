"""Kafka Connect in distributed mode: two workers share what is to be done, one is killed, and every
line arrives."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from harness.kafka.apache_kafka import NEWEST, VERSION, KafkaUnavailable
from harness.kafka.kafka_connect import ConnectWorker
from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system.groups.history import WITHIN

CONNECTORS = ("source", "sink", "other")
FILES = "org.apache.kafka.connect.file.FileStream"


@pytest.fixture
def workers(broker: BrokerProcess, tmp_path: Path) -> Iterator[list[ConnectWorker]]:
    """One of each release, as they are while Connect is updated."""
    made: list[ConnectWorker] = []
    try:
        for version in (VERSION, NEWEST):
            directory = tmp_path / version
            made.append(
                ConnectWorker(
                    directory, bootstrap=broker.bootstrap, group="connect", version=version
                )
            )
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
    try:
        for each in made:
            each.spawn()
        for each in made:
            each.process.wait_ready(each.ready, within=WITHIN)
        yield made
    finally:
        for each in made:
            each.kill()


def at_work(worker: ConnectWorker) -> dict[str, str]:
    """By whom each connector and each task of it is run; nothing while one is not."""
    found: dict[str, str] = {}
    for name in CONNECTORS:
        status = worker.status(name)
        if status is None:
            return {}
        whole = {name: status["connector"]}
        whole |= {f"{name}-{each['id']}": each for each in status["tasks"]}
        if len(whole) < 2 or any(each["state"] != "RUNNING" for each in whole.values()):
            return {}
        found |= {which: each["worker_id"] for which, each in whole.items()}
    return found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_other_worker_takes_over(
    broker: BrokerProcess, workers: list[ConnectWorker], new_topic: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(new_topic, 2)])[new_topic].result(WITHIN)
    lines, outputs = tmp_path / "lines", [tmp_path / name for name in ("sunk", "sunk-other")]
    written: set[str] = set()

    def write(count: int) -> None:
        more = [f"line {len(written) + number}" for number in range(count)]
        with lines.open("a") as file:
            file.writelines(f"{each}\n" for each in more)
        written.update(more)

    def arrived() -> bool:
        return all(
            each.exists() and set(each.read_text().splitlines()) >= written for each in outputs
        )

    write(500)
    first, second = workers
    of_source = {
        "connector.class": f"{FILES}SourceConnector",
        "file": str(lines),
        "topic": new_topic,
    }
    first.put("source", of_source)
    for name, output in zip(CONNECTORS[1:], outputs, strict=True):
        of_sink = {
            "connector.class": f"{FILES}SinkConnector",
            "file": str(output),
            "topics": new_topic,
        }
        second.put(name, of_sink)
    ids = {each.id for each in workers}
    wait_until(
        lambda: set(at_work(first).values()) == ids, within=WITHIN, what="both work", every=0.5
    )
    wait_until(arrived, within=WITHIN, what="all lines arrive", every=0.2)

    groups = {
        each.group_id: each
        for each in admin.describe_consumer_groups(["connect-sink", "connect-other"]).values()
        for each in [each.result(WITHIN)]
    }
    assert all(len(each.members) == 1 for each in groups.values())
    for kind in ("configs", "offsets", "status"):
        resource = ConfigResource("topic", f"connect-{kind}")
        configs = admin.describe_configs([resource])[resource].result(WITHIN)
        assert configs["cleanup.policy"].value == "compact"

    first.kill()
    write(500)
    wait_until(
        lambda: set(at_work(second).values()) == {second.id},
        within=WITHIN,
        what="the other one has all",
        every=0.5,
    )
    write(500)
    wait_until(arrived, within=WITHIN, what="all lines arrive", every=0.2)
    assert all(set(each.read_text().splitlines()) == written for each in outputs)
    assert second.process.alive
    assert "Traceback" not in broker.log()
