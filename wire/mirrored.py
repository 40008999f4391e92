"""What a copy of another cluster's topic is marked with, and who may write it.

A topic that is a copy has the topic config `penstock.mirror.of`. It says of which topic it is one:
`dc1/page_views/5QDhz2mVQt6JbSHYXm9lKg` is `page_views` of the cluster `dc1`, by that id; where the
source has no ids there is nothing behind the last slash. Every partition of the copy is that of the
same number there, with the same offsets. Values only.
"""

import re
from typing import Final, Self

import msgspec

MIRROR_OF: Final = "penstock.mirror.of"
"""The topic config that makes a topic a copy."""

ACCEPT_GAP: Final = "penstock.mirror.accept.gap"
"""The topic config that names gaps which a copy takes: `partition:from-to`."""

CUT: Final = "penstock.mirror.cut"
"""The topic config that names what a copy has had and its source has not: `MirrorCut`s."""

PAUSED: Final = "penstock.mirror.paused"
"""The topic config by which the mirror leaves a copy alone for a while."""

MIRROR_ID: Final = "penstock-mirror"
"""The transactional id of a Produce whose batches keep their offsets."""

_CUT: Final = re.compile(
    r"([a-zA-Z0-9_-]{22})/([0-9]{1,6}):([0-9]{1,18})-([0-9]{1,18})@([0-9]{1,10})"
)
_LONGEST: Final = 249  # as of a topic's name
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_ID: Final = re.compile(r"[a-zA-Z0-9_-]{22}")
_SHOWN: Final = 80
_PARTS: Final = 3


class MirrorOf(msgspec.Struct, frozen=True):
    """Which topic of which cluster a topic is a copy of. `ValueError` if it can be none."""

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
                f"{self.topic_id[:_SHOWN]!r} is no topic id: those have 22 characters, "
                "letters, digits, '-' and '_'"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` writes. `ValueError` says what is allowed."""
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
        """Whether nobody's events are in it, as in `_schemas`: ledgers do not speak of it."""
        return self.topic.startswith("_")

    @property
    def place(self) -> str:
        """What people call it: `dc1/page_views`."""
        return f"{self.cluster}/{self.topic}"


class MirrorCut(msgspec.Struct, frozen=True):
    """What is to be gone from a partition: the offsets from `first` on, up to `end`, which were
    written under leader epochs up to this one. `topic_id` is the copy's own."""

    topic_id: str
    partition: int
    first: int
    end: int
    leader_epoch: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` writes. `ValueError` says what is allowed."""
        found = _CUT.fullmatch(text)
        if found is None or int(found[3]) >= int(found[4]):
            raise ValueError(
                f"{text[:_SHOWN]!r} is not [topicId]/[partitionId]:[from]-[to]@[leaderEpoch], with "
                "the first offset that is cut off, and the one behind the last"
            )
        return cls(found[1], *map(int, found.groups()[1:]))

    def __str__(self) -> str:
        place = f"{self.topic_id}/{self.partition}"
        return f"{place}:{self.first}-{self.end}@{self.leader_epoch}"


def _check_name(what: str, name: str) -> None:
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise ValueError(
            f"{name[:_SHOWN]!r} is no name of a {what}: 1 to {_LONGEST} ASCII letters, digits, "
            "'.', '_' and '-'"
        )
