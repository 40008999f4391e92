"""How a mirror stands, for programs and people: what `/api/v1/standing` answers. Reads what the
copying thread writes; a figure may be a moment older than another."""

import time
from collections.abc import Iterator

import msgspec
from msgspec.structs import asdict

from mirror.acls import AclsSync
from mirror.comparing import Comparing
from mirror.config import MirrorConfig
from mirror.copying import Copying
from mirror.groups import GroupsSync
from mirror.partition import CopiedPartition, Stage
from mirror.sharing import Sharing
from mirror.telling import Telling
from mirror.topics import Standing


class PartitionStanding(msgspec.Struct, frozen=True):
    """One partition that this worker copies."""

    partition: int
    stage: str
    trouble: str
    copied: int
    end: int
    lag_messages: int
    lag_bytes: int
    lag_seconds: float


class TopicStanding(msgspec.Struct, frozen=True):
    """A topic of the source and its copy, as far as this worker copies it."""

    topic: str
    source_topic: str
    standing: str
    reason: str
    partitions: tuple[PartitionStanding, ...]


class MirrorStanding:
    """Any thread."""

    def __init__(self, config: MirrorConfig) -> None:
        self.config = config
        self.copying: Copying | None = None  # as soon as it has begun
        self.sharing: Sharing | None = None  # where workers share partitions
        self.groups: GroupsSync | None = None  # where offsets of groups are carried
        self.telling: Telling | None = None  # where there is a ledger
        self.acls: AclsSync | None = None  # where ACLs are copied
        self.comparing: Comparing | None = None  # where both clusters are compared

    @property
    def partitions(self) -> tuple[CopiedPartition, ...]:
        """That this worker copies."""
        return () if self.copying is None else tuple(self.copying.partitions.copy().values())

    @property
    def why_not_ready(self) -> str:
        return "it begins" if self.copying is None else self.copying.trouble

    @property
    def offsets(self) -> str:
        """What becomes of them: `kept`, or by which topic they are `mapped`."""
        kafka = None if self.copying is None else self.copying.kafka
        return "kept" if kafka is None else f"mapped by {kafka.map_name}"

    def remarks(self) -> Iterator[str]:
        """What is wrong all the same, a line each."""
        copying = self.copying
        if copying is None:
            return
        if self.sharing is not None and self.sharing.trouble:
            yield f"partitions are not shared: {self.sharing.trouble}"
        if self.groups is not None and self.groups.trouble:
            yield f"offsets of groups are not carried: {self.groups.trouble}"
        if self.telling is not None and self.telling.trouble:
            yield f"the ledger is not told: {self.telling.trouble}"
        if self.acls is not None and self.acls.trouble:
            yield f"ACLs are not copied: {self.acls.trouble}"
        for way, trouble in copying.lanes_in_trouble.items():
            yield f"nothing is copied from broker {way}: {trouble}"
        if copying.seen is not None:
            for copy in copying.seen.copies.values():
                if copy.standing not in {Standing.COPIED, Standing.PAUSED}:
                    yield f"{copy.here} is not copied: {copy.reason}"
            for name, trouble in copying.seen.troubles.items():
                yield f"{name}: {trouble}"
        for each in self.partitions:
            if each.stage is Stage.STOPPED:
                yield f"{each.name} has stopped: {each.trouble}"
            elif each.stage is Stage.WAITING and each.trouble:
                yield f"{each.name} waits: {each.trouble}"
        if self.comparing is not None:
            for (topic, index), found in self.comparing.different.items():
                more = f"; and {len(found) - 1} more ranges" if len(found) > 1 else ""
                yield f"{topic}-{index} differs from its source at {found[0]}{more}"
            for (topic, index), trouble in self.comparing.trouble.items():
                yield f"{topic}-{index} could not be compared: {trouble}"

    def topics(self) -> list[TopicStanding]:
        copying = self.copying
        if copying is None or copying.seen is None:
            return []
        now = time.monotonic()
        mine: dict[str, list[PartitionStanding]] = {}
        for each in sorted(self.partitions, key=lambda each: each.here):
            mine.setdefault(each.here[0], []).append(_said(each, now))
        return [
            TopicStanding(
                topic=copy.here,
                source_topic=copy.there,
                standing=copy.standing.value,
                reason=copy.reason or copying.seen.troubles.get(copy.here, ""),
                partitions=tuple(mine.get(copy.here, ())),
            )
            for copy in copying.seen.copies.values()
        ]

    def json(self) -> dict[str, object]:
        """All of it, as the page has it."""
        return {
            "name": self.config.name,
            "source": self.config.source.cluster,
            "target": self.config.target.cluster,
            "offsets": self.offsets,
            "not_ready": self.why_not_ready,
            "remarks": list(self.remarks()),
            "topics": msgspec.to_builtins(self.topics()),
            "compared": self._compared(),
        }

    def _compared(self) -> dict[str, object] | None:
        comparing = self.comparing
        if comparing is None:
            return None
        return {
            "bytes": comparing.bytes,
            "passes": comparing.passes,
            "age_seconds": round(comparing.age_s, 3),
            "different": [
                {"topic": topic, "partition": index, **asdict(each)}
                for (topic, index), found in comparing.different.items()
                for each in found
            ],
        }


def _said(partition: CopiedPartition, now: float) -> PartitionStanding:
    return PartitionStanding(
        partition=partition.here[1],
        stage=partition.stage.value,
        trouble=partition.trouble,
        copied=partition.copied,
        end=partition.end,
        lag_messages=partition.lag,
        lag_bytes=partition.lag_bytes,
        lag_seconds=round(partition.lag_seconds(now), 3),
    )
