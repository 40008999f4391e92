"""The configs of a mirrored topic, and the transactional id under which mirrors write.

A topic that is a copy has the topic config `penstock.mirror.of`, which names its source:
`dc1/page_views/5QDhz2mVQt6JbSHYXm9lKg` is the topic `page_views` of the cluster `dc1`, with that
id; without topic ids in the source nothing follows the last slash. Each partition of the copy
corresponds to that of the same number, with the same offsets. Values only.
"""

import re
from typing import Final, Self

import msgspec

MIRROR_OF: Final = "penstock.mirror.of"
"""The topic config that makes a topic a copy."""

ACCEPT_GAP: Final = "penstock.mirror.accept.gap"
"""The topic config that lists gaps to accept in a copy: `partition:from-to`."""

CUT: Final = "penstock.mirror.cut"
"""The topic config that lists what to cut from a copy because its source lacks it: `MirrorCut`s."""

PAUSED: Final = "penstock.mirror.paused"
"""The topic config that pauses mirroring into a copy."""

MIRROR_ID: Final = "penstock-mirror"
"""The transactional id of a Produce request whose batches keep their offsets."""

_CUT: Final = re.compile(
    r"([a-zA-Z0-9_-]{22})/([0-9]{1,6}):([0-9]{1,18})-([0-9]{1,18})@([0-9]{1,10})"
)
_LONGEST: Final = 249  # as of a topic's name
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_ID: Final = re.compile(r"[a-zA-Z0-9_-]{22}")
_SHOWN: Final = 80
_PARTS: Final = 3


class MirrorOf(msgspec.Struct, frozen=True):
    """The source of a copy. Raises `ValueError` for invalid names."""

    cluster: str
    topic: str
    topic_id: str  # as Kafka's tools print it; empty if the source has none

    def __post_init__(self) -> None:
        _check_name("cluster", self.cluster)
        _check_name("topic", self.topic)
        if self.topic in {".", ".."}:
            raise ValueError(f"a topic cannot be named {self.topic!r}")
        if self.topic_id and not _TOPIC_ID.fullmatch(self.topic_id):
            raise ValueError(
                f"{self.topic_id[:_SHOWN]!r} is not a topic id: these have 22 characters, "
                "letters, digits, '-' and '_'"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses the output of `str`. Raises ValueError that says what is allowed."""
        parts = text.split("/")
        if len(parts) != _PARTS:
            raise ValueError(
                f"{text[:_SHOWN]!r} is not CLUSTER/TOPIC/TOPIC-ID, or CLUSTER/TOPIC/ where the "
                "source has no topic ids"
            )
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}/{self.topic_id}"

    @property
    def of_penstocks_own(self) -> bool:
        """Whether the source is an internal topic such as `_schemas`, which ledgers do not
        cover."""
        return self.topic.startswith("_")

    @property
    def place(self) -> str:
        """The topic's name with its cluster, for people: `dc1/page_views`."""
        return f"{self.cluster}/{self.topic}"


class MirrorCut(msgspec.Struct, frozen=True):
    """A cut: removes the offsets from `first` to `end`, written in leader epochs up to this one,
    from a partition of the copy with this `topic_id`."""

    topic_id: str
    partition: int
    first: int
    end: int
    leader_epoch: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses the output of `str`. Raises ValueError that says what is allowed."""
        match = _CUT.fullmatch(text)
        if match is None or int(match[3]) >= int(match[4]):
            raise ValueError(
                f"{text[:_SHOWN]!r} is not [topicId]/[partitionId]:[from]-[to]@[leaderEpoch], with "
                "the first deleted offset, and the one after the last"
            )
        return cls(match[1], *map(int, match.groups()[1:]))

    def __str__(self) -> str:
        partition_name = f"{self.topic_id}/{self.partition}"
        return f"{partition_name}:{self.first}-{self.end}@{self.leader_epoch}"


def _check_name(kind: str, name: str) -> None:
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise ValueError(
            f"{name[:_SHOWN]!r} is not a {kind} name: 1 to {_LONGEST} ASCII letters, digits, "
            "'.', '_' and '-'"
        )
