"""Workers of a mirror between two brokers, and what they say of themselves."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.broker_process import REPOSITORY, BrokerProcess
from harness.mirror_process import MirrorProcess, side
from harness.server_process import ServerProcess


def worker(
    directory: Path,
    source: BrokerProcess,
    target: BrokerProcess,
    topic: str,
    *,
    arguments: Sequence[str] = (),
    zookeeper: str = "",
    **settings: Any,
) -> MirrorProcess:
    """Of topics that begin so; not started yet."""
    found = MirrorProcess(
        directory,
        source=side("dc1", [source.bootstrap]),
        target=side("offline", [target.bootstrap], zookeeper=zookeeper),
        settings={"topics": [f"{topic}*"], "interval": 0.5, **settings},
    )
    if arguments:
        found.process = ServerProcess(
            [sys.executable, "-m", "penstock", "mirror", "--config", str(found.config), *arguments],
            output=directory / "mirror.log",
            directory=REPOSITORY,
        )
    return found


def partition_of(mirror: MirrorProcess, topic: str, number: int = 0) -> dict[str, Any]:
    """What it says of one partition, by its topic's name at the target."""
    for each in (mirror.standing() or {}).get("topics", ()):
        if each["topic"] == topic:
            for partition in each["partitions"]:
                if partition["partition"] == number:
                    return dict(partition)
    return {}
