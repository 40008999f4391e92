"""Workers of a mirror between two brokers, and what they say of themselves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.penstock.broker import BrokerProcess
from harness.penstock.mirror import MirrorProcess, side
from mirror.config import MirrorConfig
from tests.penstock.running import Ended, penstock


class Worker(MirrorProcess):
    """Commands beside it run in a process that has imported `penstock` already."""

    def told(self, *arguments: str, within: float = 120) -> Ended:
        return penstock("mirror", *arguments, "--config", str(self.config))

    def done(self, *arguments: str) -> Ended:
        """A command that succeeds."""
        ended = self.told(*arguments)
        assert ended.returncode == 0, ended
        return ended

    def refused(self, *arguments: str) -> str:
        """What it says to a command that fails."""
        ended = self.told(*arguments)
        assert ended.returncode == 1, ended
        return ended.stderr


def worker(
    directory: Path,
    source: str,
    target: str,
    topics: str,
    *,
    arguments: Sequence[str] = (),
    zookeeper: str = "",
    **settings: Any,
) -> Worker:
    """Of these topics, from one bootstrap address to the other; not started yet."""
    found = Worker(
        directory,
        source=side("dc1", [source]),
        target=side("offline", [target], zookeeper=zookeeper),
        settings={"topics": [topics], "interval": 0.5, **settings},
    )
    found.process.command = found.command(*arguments)
    return found


def mirror_config(
    source: BrokerProcess | None = None,
    target: BrokerProcess | None = None,
    *,
    zookeeper: str = "",
    **settings: Any,
) -> MirrorConfig:
    """For what runs within a test; without brokers nobody is there."""
    there, here = (each.bootstrap if each else "127.0.0.1:1" for each in (source, target))
    return msgspec.convert(
        {
            "name": "m",
            "source": side("dc1", [there]),
            "target": side("offline", [here], zookeeper=zookeeper),
            "data_dir": "/nowhere",
            **settings,
        },
        MirrorConfig,
    )


def topic_of(mirror: MirrorProcess, topic: str) -> dict[str, Any]:
    """What it says of a topic, by its name at the target; nothing if it does not know it."""
    found = (mirror.standing() or {}).get("topics", ())
    return next((dict(each) for each in found if each["topic"] == topic), {})


def partition_of(mirror: MirrorProcess, topic: str, number: int = 0) -> dict[str, Any]:
    found = topic_of(mirror, topic).get("partitions", ())
    return next((dict(each) for each in found if each["partition"] == number), {})


def stands(mirror: MirrorProcess, topic: str, standing: str) -> bool:
    return bool(topic_of(mirror, topic).get("standing") == standing)


def stage(mirror: MirrorProcess, topic: str) -> str:
    return str(partition_of(mirror, topic).get("stage"))
