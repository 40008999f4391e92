"""Mirrors under test, Penstock's and MirrorMaker 2, each between its own two Penstock clusters.

Each cluster has one broker. A mirror starts for each case and copies only the topics of that case;
brokers and ZooKeepers are not part of its figures.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bench.servers.brokers import PENSTOCK, penstock_cluster
from harness.kafka.mirror_maker import MirrorMaker
from harness.penstock.broker import BrokerProcess
from harness.penstock.mirror import MirrorProcess, side
from harness.processes.server_process import RunningServer

MIRROR_MAKER: Final = "MirrorMaker 2"
SOURCE, TARGET = "dc1", "offline"
PREFIX: Final = f"{SOURCE}."


class MirroredClusters(msgspec.Struct):
    """Two started brokers, and the function that makes a mirror between them."""

    name: str
    directory: Path
    source: BrokerProcess
    target: BrokerProcess
    make: Callable[["MirroredClusters", Path, str, str], RunningServer]
    target_map: str = ""
    started: int = 0
    last: RunningServer | None = None

    def last_words(self, lines: int) -> str:
        outputs = [] if self.last is None else [self.last.process.last_words(lines)]
        return "\n".join([*outputs, self.target.process.last_words(lines)])

    def mirror(self, topic: str, codec: str = "none") -> RunningServer:
        """Returns a mirror of this topic, not started yet; `codec` is that of the topic's
        batches."""
        self.started += 1
        directory = self.directory / f"mirror-{self.started}"
        self.last = self.make(self, directory, topic, codec)
        return self.last


def _penstock_mirror(
    clusters: MirroredClusters, directory: Path, topic: str, _codec: str
) -> RunningServer:
    return MirrorProcess(
        directory,
        source=side(SOURCE, [clusters.source.bootstrap]),
        target=side(TARGET, [clusters.target.bootstrap], zookeeper=clusters.target_map),
        settings={"topics": [topic], "prefix": PREFIX},
    )


def _mirror_maker(
    clusters: MirroredClusters, directory: Path, topic: str, codec: str
) -> RunningServer:
    """It repacks batches, with the codec that they had."""
    return MirrorMaker(
        directory,
        (SOURCE, clusters.source.bootstrap),
        (TARGET, clusters.target.bootstrap),
        topic,
        {f"{SOURCE}->{TARGET}.producer.compression.type": codec},
    )


def _kind(
    name: str, make: Callable[[MirroredClusters, Path, str, str], RunningServer]
) -> Callable[[Path], contextlib.AbstractContextManager[MirroredClusters]]:
    @contextlib.contextmanager
    def started(directory: Path) -> Iterator[MirroredClusters]:
        with (
            penstock_cluster(directory / SOURCE, {"cluster": SOURCE}) as (_, source),
            penstock_cluster(directory / TARGET, {"cluster": TARGET}) as (target_map, target),
        ):
            yield MirroredClusters(name, directory, source, target, make, target_map)

    return started


MIRRORED: Final[
    Mapping[str, Callable[[Path], contextlib.AbstractContextManager[MirroredClusters]]]
] = {
    PENSTOCK: _kind(PENSTOCK, _penstock_mirror),
    MIRROR_MAKER: _kind(MIRROR_MAKER, _mirror_maker),
}
