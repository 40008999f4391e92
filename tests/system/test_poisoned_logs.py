"""Batches that nobody can read, in a log from before the broker looked at records, or from Kafka.

Whoever reads them says what is wrong and where, and does not wait for ever.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from client.bootstrap import Bootstrap
from client.brokers import Brokers
from client.consumer import Consumer
from client.errors import Corrupt
from client.offsets import AtOffset
from harness.broker_process import BrokerProcess
from harness.registry_process import RegistryProcess
from harness.waiting import wait_until
from tests.system.clients.stored import segments
from tests.system.produce import must_produce
from tests.system.topics import create

CRC_AT, CRC_START, HEADER_SIZE = 17, 21, 61


@pytest.fixture
def broker(chroot: str, tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", zookeeper=chroot) as broker:
        yield broker


def poison(broker: BrokerProcess, topic: str, position: int = 0) -> None:
    """What lies at this position of the log keeps its header, has garbage, and a CRC for it."""
    (file,) = segments(broker.partition_dir(topic))
    data = bytearray(file.read_bytes())
    end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    garbage = b"garbage, not records " * 100
    data[position + HEADER_SIZE : end] = garbage[: end - position - HEADER_SIZE]
    crc = crc32c(bytes(data[position + CRC_START : end]))
    data[position + CRC_AT : position + CRC_START] = crc.to_bytes(4, "big")
    file.write_bytes(data)


def test_readers_say_where_it_is_and_read_on_behind_it(broker: BrokerProcess, topic: str) -> None:
    create(broker.bootstrap, topic)
    must_produce(broker.bootstrap, topic, [b"one", b"two"])
    must_produce(broker.bootstrap, topic, [b"three"])
    broker.stop()
    poison(broker, topic)
    broker.start()

    command = [sys.executable, "-m", "penstock", "consume", topic, "--from", "beginning"]
    command += ["--bootstrap", broker.bootstrap]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode
    assert f"{topic}-0, offset 0: malformed records: " in run.stderr

    with Brokers(Bootstrap.of(broker.bootstrap)) as brokers:
        with (
            Consumer(brokers, topic, AtOffset(0), to_end=True) as consumer,
            pytest.raises(Corrupt, match="offset 0: malformed records"),
        ):
            list(consumer)
        with Consumer(brokers, topic, AtOffset(2), to_end=True) as consumer:
            assert [message.record.value for message in consumer] == [b"three"]


def test_a_registry_leaves_it_out_and_says_so(broker: BrokerProcess, tmp_path: Path) -> None:
    create(broker.bootstrap, "_schemas", configs={"cleanup.policy": "compact"})
    with RegistryProcess(tmp_path / "registry", brokers=broker.bootstrap) as registry:
        registered = registry.ask("POST", "/subjects/one/versions", {"schema": '"string"'})
        assert registered.status == 200
        registered = registry.ask("POST", "/subjects/two/versions", {"schema": '"long"'})
        assert registered.status == 200
    broker.stop()
    poison(broker, "_schemas")
    broker.start()
    with RegistryProcess(tmp_path / "another", brokers=broker.bootstrap) as registry:
        assert "two" in registry.ask("GET", "/subjects").body
        wait_until(
            lambda: "batch left out offset=0" in registry.process.log(),
            within=30,
            what="the batch is named in the log",
        )
