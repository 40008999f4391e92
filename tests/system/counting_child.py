"""A broker that keeps a ledger, and its counting process, which can be found and stopped."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from harness.processes.waiting import wait_until

CHILD = b"broker.counting.process"


@contextmanager
def counted_broker(directory: Path, zookeeper: str, **settings: Any) -> Iterator[BrokerProcess]:
    """A broker with the registry that its ledger needs."""
    broker = BrokerProcess(
        directory / "broker",
        zookeeper=zookeeper,
        settings={"registry": "${COUNTED_REGISTRY}", "ledger_interval": 0.2, **settings},
    )
    registry = RegistryProcess(directory / "registry", brokers=broker.bootstrap)
    broker.process.environment["COUNTED_REGISTRY"] = registry.url
    with ExitStack() as ends:
        ends.enter_context(broker)
        ends.enter_context(registry)
        yield broker


def child_of(broker: BrokerProcess) -> int:
    """The broker's counting process; 0 if there is none."""
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and CHILD in (process / "cmdline").read_bytes():
                stat = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if int(stat[1]) == broker.process.pid and stat[0] != "Z":
                    return int(process.name)
        except OSError:
            continue  # it ended meanwhile
    return 0


@contextmanager
def standing_still(broker: BrokerProcess) -> Iterator[None]:
    """Suspend counting within the block."""
    wait_until(lambda: child_of(broker) > 0, within=10, what="the counting process runs")
    child = child_of(broker)
    os.kill(child, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(child, signal.SIGCONT)
