"""A broker that has forgotten the producer: what became of open batches stands in the log alone."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.apache_kafka import QUICK_JVM, ApacheKafka, kafka_classpath, why_no_kafka
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from tests.system.agent.incarnations import Incarnation
from tests.system.agent.site import Cluster, Site, stop
from tests.system.agent.test_changes import FIRST, SECOND, SMALL, THIRD, write
from tests.system.faults import Faults

DAY = 86_400.0
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"


def ship_and_forget(
    server: Cluster, registry: RegistryProcess, directory: Path, forget: Callable[[], None]
) -> None:
    with Site(server, registry.url, directory) as site:
        topic = site.topic(site.new_topic())
        a = Incarnation("a")
        one = {"paths": [f"{site.logs}/*.log"], "topic": topic.name}
        agent = site.agent(one, settings={"batches": SMALL})
        write(site, a, FIRST)
        agent.start()
        topic.wait_for_count(FIRST)
        # Sent, taken, and not acknowledged: its answer goes to nobody.
        os.kill(server.process.pid, signal.SIGSTOP)
        write(site, a, SECOND)
        time.sleep(0.7)
        agent.kill()
        os.kill(server.process.pid, signal.SIGCONT)
        time.sleep(0.5)
        before = len(topic.read_to_end().events)
        forget()
        write(site, a, THIRD)
        agent.start()
        topic.wait_for_count(FIRST + SECOND + THIRD)
        stop(agent)
        site.check(topic, [a])
        # The case that is meant is that some were taken, and some were not.
        print(f"{before - FIRST} of {SECOND} lines were in the log")


def test_penstock(
    chroot: str, running_registry: RegistryProcess, tmp_path: Path, faults: Faults
) -> None:
    with BrokerProcess(
        tmp_path / "broker", zookeeper=chroot, environment=faults.environment
    ) as broker:

        def forget() -> None:
            """Two days pass, as the broker sees it, while it is away."""
            broker.kill()
            faults.move_clock(2 * DAY)
            broker.start()

        ship_and_forget(broker, running_registry, tmp_path, forget)


@pytest.fixture
def forgetful_kafka(tmp_path: Path) -> Iterator[ApacheKafka]:
    if kafka_classpath() is None:
        pytest.skip(f"Apache Kafka cannot be had: {why_no_kafka()}")
    settings = {
        "producer.id.expiration.ms": "1000",
        "producer.id.expiration.check.interval.ms": "200",
    }
    with ApacheKafka(tmp_path / "kafka", settings=settings, heap="256m", jvm=QUICK_JVM) as kafka:
        yield kafka


if LONG:  # a Kafka of its own takes long to start

    @pytest.mark.fuzz
    def test_apache_kafka(
        forgetful_kafka: ApacheKafka, running_registry: RegistryProcess, tmp_path: Path
    ) -> None:
        ship_and_forget(forgetful_kafka, running_registry, tmp_path, lambda: time.sleep(3.0))
