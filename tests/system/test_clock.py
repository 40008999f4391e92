"""The wall clock jumps under the broker: nothing is deleted for it, and clients go on.

When a jump is one: tests/broker/storage/test_retention.py.
"""

from pathlib import Path

from harness.penstock.broker import BrokerProcess
from harness.processes.waiting import wait_until
from tests.system.clients.stored import segments
from tests.system.faults import Faults
from tests.system.produce import must_produce, read_values
from tests.system.topics import create

DAY = 24 * 3600.0
SEGMENTS = {"segment.bytes": "10000"}
VALUE = bytes(6000)


def filled(broker: BrokerProcess, topic: str, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    create(broker.bootstrap, topic, configs=SEGMENTS | named)
    for _ in range(5):
        must_produce(broker.bootstrap, topic, [VALUE])


def wait_until_one_is_left(broker: BrokerProcess, topic: str) -> None:
    directory = broker.partition_dir(topic)
    wait_until(lambda: len(segments(directory)) == 1, what=f"old segments of {topic} are deleted")


def wait_for_retention(broker: BrokerProcess) -> None:
    """It has run: a topic of the smallest size has lost segments."""
    topic = f"short-{len(list(broker.data_dir.iterdir()))}"
    filled(broker, topic, retention_bytes="1")
    wait_until_one_is_left(broker, topic)


def test_a_clock_that_jumps_deletes_nothing(chroot: str, tmp_path: Path, faults: Faults) -> None:
    """Retention is 7 days: to a clock ten years ahead everything is old."""
    with BrokerProcess(
        tmp_path / "broker",
        zookeeper=chroot,
        settings={"intervals": {"retention": 0.2}},
        environment=faults.environment,
    ) as broker:
        filled(broker, "kept", retention_ms=str(int(7 * DAY * 1000)))
        written = dict.fromkeys(range(5), VALUE)
        # Without a jump, what is old does go.
        filled(broker, "goes", retention_ms="1000")
        wait_until_one_is_left(broker, "goes")
        assert must_produce(broker.bootstrap, "goes", [b"after"]) == 5

        # Clients notice nothing, and a clock that comes back is a jump like the other.
        for days in (3650, 0):
            faults.move_clock(days * DAY)
            wait_for_retention(broker)
            wait_for_retention(broker)
            assert read_values(broker.bootstrap, "kept") == written
            offset = must_produce(broker.bootstrap, "kept", [b"meanwhile"])
            written[offset] = b"meanwhile"
        assert "clock" in broker.log()

        # The machine comes up with a wrong clock, as after the loss of its battery.
        broker.kill()
        faults.move_clock(3650 * DAY)
        broker.start()
        wait_for_retention(broker)
        assert read_values(broker.bootstrap, "kept") == written
