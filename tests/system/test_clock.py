"""The wall clock jumps under the broker: nothing is deleted for it, and clients go on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.broker_process import BrokerProcess
from harness.waiting import wait_until
from tests.system.clients.stored import segments
from tests.system.faults import Faults
from tests.system.produce import must_produce, read_values
from tests.system.topics import create

DAY = 24 * 3600.0
RETENTION_SECONDS = 0.2
SEGMENTS = {"segment.bytes": "10000"}


@pytest.fixture
def broker(chroot: str, tmp_path: Path, faults: Faults) -> Iterator[BrokerProcess]:
    settings = {"intervals": {"retention": RETENTION_SECONDS}}
    with BrokerProcess(
        tmp_path / "broker", zookeeper=chroot, settings=settings, environment=faults.environment
    ) as broker:
        yield broker


def write_segments(broker: BrokerProcess, topic: str, count: int) -> dict[int, bytes]:
    for _ in range(count):
        must_produce(broker.bootstrap, topic, [bytes(6000)])
    return dict.fromkeys(range(count), bytes(6000))


def deletions_were_looked_for(broker: BrokerProcess) -> None:
    """Returns when a topic of the smallest size has lost segments: retention has run."""
    name = f"short-{len(list(broker.data_dir.iterdir()))}"
    create(broker.bootstrap, name, configs=SEGMENTS | {"retention.bytes": "1"})
    for _ in range(4):
        must_produce(broker.bootstrap, name, [bytes(6000)])
    wait_until(
        lambda: len(segments(broker.partition_dir(name))) == 1,
        within=20,
        what="retention by size deletes segments",
    )


@pytest.mark.parametrize("days", [3650, 8, -3650])
def test_a_jump_deletes_nothing(broker: BrokerProcess, faults: Faults, days: int) -> None:
    """Retention is 7 days: to a clock ten years ahead everything is old."""
    create(broker.bootstrap, "kept", configs=SEGMENTS | {"retention.ms": str(int(7 * DAY * 1000))})
    written = write_segments(broker, "kept", 5)
    faults.move_clock(days * DAY)
    deletions_were_looked_for(broker)
    deletions_were_looked_for(broker)
    assert read_values(broker.bootstrap, "kept") == written
    # Clients notice nothing, and a clock that comes back is a jump like the other.
    offset = must_produce(broker.bootstrap, "kept", [b"meanwhile"])
    faults.move_clock(0)
    deletions_were_looked_for(broker)
    assert read_values(broker.bootstrap, "kept") == written | {offset: b"meanwhile"}
    assert "clock" in broker.log()


def test_a_start_with_a_wrong_clock_deletes_nothing(broker: BrokerProcess, faults: Faults) -> None:
    """The machine comes up with a clock ten years ahead, as after the loss of its battery."""
    create(broker.bootstrap, "kept", configs=SEGMENTS | {"retention.ms": str(int(7 * DAY * 1000))})
    written = write_segments(broker, "kept", 5)
    broker.kill()
    faults.move_clock(3650 * DAY)
    broker.start()
    deletions_were_looked_for(broker)
    assert read_values(broker.bootstrap, "kept") == written


def test_without_a_jump_old_segments_go(broker: BrokerProcess) -> None:
    """What the tests above exclude does happen when it should."""
    create(broker.bootstrap, "goes", configs=SEGMENTS | {"retention.ms": "1000"})
    write_segments(broker, "goes", 5)
    wait_until(
        lambda: len(segments(broker.partition_dir("goes"))) == 1,
        within=20,
        what="all old segments are deleted",
    )
    assert must_produce(broker.bootstrap, "goes", [b"after"]) == 5
