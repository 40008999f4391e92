"""The mirror's status for programs and people, as served by `/api/v1/standing`. Reads what the
copying thread writes; figures may differ in age by a moment."""

import time
from collections.abc import Iterator

import msgspec
from msgspec.structs import asdict

from ground.signatures.keys import PublicKey
from mirror.clusters.acls import AclsSync
from mirror.clusters.group_offsets import GroupsSync
from mirror.comparing.comparison import Comparison
from mirror.config import MirrorConfig
from mirror.ledger_reporter import LedgerReporter
from mirror.partitions.partition import CopiedPartition, Stage
from mirror.topics import Standing
from mirror.worker.copier import Copier
from mirror.worker.partition_sharing import Sharing


class PartitionStatus(msgspec.Struct, frozen=True):
    """A partition of this worker."""

    partition: int
    stage: str
    trouble: str
    copied: int
    end: int
    lag_messages: int
    lag_bytes: int
    lag_seconds: float


class TopicStatus(msgspec.Struct, frozen=True):
    """A topic of the source and its copy, with this worker's partitions."""

    topic: str
    source_topic: str
    standing: str
    reason: str
    partitions: tuple[PartitionStatus, ...]


class MirrorStatus:
    """The mirror's current status. Any thread."""

    def __init__(self, config: MirrorConfig, key: PublicKey) -> None:
        """`key` is the key that the mirror's statements are signed with."""
        self.config = config
        self.key = key
        self.copying: Copier | None = None  # set once copying has begun
        self.sharing: Sharing | None = None  # if workers share partitions
        self.groups: GroupsSync | None = None  # if groups' offsets are synchronized
        self.reporter: LedgerReporter | None = None  # if there is a ledger
        self.acls: AclsSync | None = None  # if ACLs are copied
        self.comparing: Comparison | None = None  # if the clusters are compared

    @property
    def partitions(self) -> tuple[CopiedPartition, ...]:
        """The partitions that this worker copies."""
        return () if self.copying is None else tuple(self.copying.partitions.copy().values())

    @property
    def why_not_ready(self) -> str:
        return "starting" if self.copying is None else self.copying.trouble

    @property
    def offsets(self) -> str:
        """How offsets are handled: `kept`, or `mapped by` a topic."""
        kafka = None if self.copying is None else self.copying.kafka
        return "kept" if kafka is None else f"mapped by {kafka.map_name}"

    def remarks(self) -> Iterator[str]:
        """Current problems, one line each."""
        copier = self.copying
        if copier is None:
            return
        if self.sharing is not None and self.sharing.trouble:
            yield f"cannot share partitions: {self.sharing.trouble}"
        if self.groups is not None and self.groups.trouble:
            yield f"cannot synchronize groups: {self.groups.trouble}"
        if self.reporter is not None and self.reporter.trouble:
            yield f"cannot write to the ledger: {self.reporter.trouble}"
        if self.acls is not None and self.acls.trouble:
            yield f"cannot copy ACLs: {self.acls.trouble}"
        for pair, trouble in copier.lanes_in_trouble.items():
            yield f"nothing is copied from broker {pair}: {trouble}"
        if copier.seen is not None:
            for copy in copier.seen.copies.values():
                if copy.standing not in {Standing.COPIED, Standing.PAUSED}:
                    yield f"{copy.here} is not copied: {copy.reason}"
            for name, trouble in copier.seen.troubles.items():
                yield f"{name}: {trouble}"
        for partition in self.partitions:
            if partition.stage is Stage.STOPPED:
                yield f"{partition.name} has stopped: {partition.trouble}"
            elif partition.stage is Stage.WAITING and partition.trouble:
                yield f"{partition.name} is waiting: {partition.trouble}"
        if self.comparing is not None:
            for (topic, index), ranges in self.comparing.different.items():
                other_ranges = f"; and {len(ranges) - 1} more ranges" if len(ranges) > 1 else ""
                yield f"{topic}-{index} differs from its source at {ranges[0]}{other_ranges}"
            for (topic, index), trouble in self.comparing.trouble.items():
                yield f"{topic}-{index} could not be compared: {trouble}"

    def topics(self) -> list[TopicStatus]:
        copier = self.copying
        if copier is None or copier.seen is None:
            return []
        now = time.monotonic()
        by_topic: dict[str, list[PartitionStatus]] = {}
        for partition in sorted(self.partitions, key=lambda partition: partition.here):
            by_topic.setdefault(partition.here[0], []).append(_partition_status(partition, now))
        return [
            TopicStatus(
                topic=copy.here,
                source_topic=copy.there,
                standing=copy.standing.value,
                reason=copy.reason or copier.seen.troubles.get(copy.here, ""),
                partitions=tuple(by_topic.get(copy.here, ())),
            )
            for copy in copier.seen.copies.values()
        ]

    def json(self) -> dict[str, object]:
        """The whole status, as served."""
        return {
            "name": self.config.name,
            "source": self.config.source.cluster,
            "target": self.config.target.cluster,
            "signing_key": self.key.fingerprint,
            "offsets": self.offsets,
            "not_ready": self.why_not_ready,
            "remarks": list(self.remarks()),
            "topics": msgspec.to_builtins(self.topics()),
            "compared": self._compared(),
        }

    def _compared(self) -> dict[str, object] | None:
        comparison = self.comparing
        if comparison is None:
            return None
        return {
            "bytes": comparison.bytes,
            "passes": comparison.passes,
            "age_seconds": round(comparison.age_s, 3),
            "different": [
                {"topic": topic, "partition": index, **asdict(difference)}
                for (topic, index), differences in comparison.different.items()
                for difference in differences
            ],
        }


def _partition_status(partition: CopiedPartition, now: float) -> PartitionStatus:
    return PartitionStatus(
        partition=partition.here[1],
        stage=partition.stage.value,
        trouble=partition.trouble,
        copied=partition.copied,
        end=partition.end,
        lag_messages=partition.lag,
        lag_bytes=partition.lag_bytes,
        lag_seconds=round(partition.lag_seconds(now), 3),
    )
