"""Plans the topics to copy, their names, and the changes at the target. Pure.

A copy is a topic of the target with the mark `penstock.mirror.of`. A topic without the mark is
another user's, or was promoted: it is left alone. So is a copy of something else, or of a topic of
that name that was deleted since; the reason is reported.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from mirror.partitions.gaps import Gap, gaps_of
from wire.mirrored import ACCEPT_GAP, MIRROR_OF, PAUSED, MirrorOf

SCHEMAS: Final = "_schemas"
_OURS: Final = "penstock.mirror."
_CLEANUP: Final = "cleanup.policy"
_NOT_FOLLOWED: Final = frozenset(
    {
        "min.insync.replicas",  # the target may have fewer replicas
        "unclean.leader.election.enable",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "message.format.version",
    }
)
_FOREIGN: Final = ("confluent.", "remote.", "local.")


class Names(msgspec.Struct, frozen=True):
    """The name rules of the configuration."""

    prefix: str
    strip: str = ""
    topics: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    schemas: bool = False

    def here(self, there: str) -> str | None:
        """The name of a source topic's copy; None if it is not copied."""
        if there == SCHEMAS and self.schemas:
            return f"{self.prefix}{SCHEMAS}"
        if there.startswith("_") or not _matches(there, self.topics):
            return None
        if _matches(there, self.exclude):
            return None
        if self.strip and not there.startswith(self.strip):
            return None
        return f"{self.prefix}{there.removeprefix(self.strip)}" or None


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Topic(NamedTuple):
    """A topic of a cluster; `configs` are its own, without defaults."""

    name: str
    topic_id: str
    partitions: int
    configs: Mapping[str, str]


class Standing(StrEnum):
    """The relation of a topic of the target to this mirror."""

    COPIED = "copied"
    PAUSED = "paused"
    ORDINARY = "ordinary"  # it has no mark
    FOREIGN = "foreign"  # a copy of something else
    RECREATED = "made anew"  # a copy of a topic that was deleted and recreated
    GONE = "gone"  # there is no such topic at the source


class Create(NamedTuple):
    name: str
    partitions: int
    configs: Mapping[str, str]


class Enlarge(NamedTuple):
    name: str
    partitions: int


class Alter(NamedTuple):
    name: str
    configs: Mapping[str, str | None]


Change = Create | Enlarge | Alter


class TopicCopy(msgspec.Struct, frozen=True):
    """A topic of the source and its copy."""

    here: str
    there: str
    standing: Standing
    partitions: int = 0  # that both sides have
    compacts: bool = False
    accepted: Mapping[int, Gap] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    topic_id: str = ""  # of the copy
    origin: MirrorOf | None = None
    reason: str = ""  # why it is not copied
    changes: tuple[Change, ...] = ()


def plan(
    names: Names,
    cluster: str,
    source: Mapping[str, Topic],
    target: Mapping[str, Topic],
    keep: frozenset[str] = frozenset(),
) -> dict[str, TopicCopy]:
    """All topics to copy, by their names at the target. `keep`: configs that are not copied."""
    copies: dict[str, TopicCopy] = {}
    for source_name, topic in sorted(source.items()):
        copy_name = names.here(source_name)
        if copy_name is None:
            continue
        if copy_name in copies:
            other_topic = copies[copy_name].there
            reason = f"{other_topic} is copied to {copy_name} already: see `prefix` and `strip`"
            copies[copy_name] = TopicCopy(copy_name, source_name, Standing.FOREIGN, reason=reason)
            continue
        copies[copy_name] = _copy(
            copy_name, topic, target.get(copy_name), cluster, _NOT_FOLLOWED | keep
        )
    for copy_name, copy in target.items():
        origin = origin_of(copy.configs)
        if origin is not None and origin.cluster == cluster and copy_name not in copies:
            is_ours = names.here(origin.topic) == copy_name
            if is_ours and origin.topic not in source:
                reason = f"{cluster} has no topic {origin.topic}, or hides it"
                copies[copy_name] = TopicCopy(copy_name, origin.topic, Standing.GONE, reason=reason)
    return copies


def _copy(
    copy_name: str, topic: Topic, copy: Topic | None, cluster: str, keep: frozenset[str]
) -> TopicCopy:
    mark = MirrorOf(cluster, topic.name, topic.topic_id)
    source_configs = followed(topic.configs, keep)
    compacts = "compact" in topic.configs.get(_CLEANUP, "")
    if copy is None:
        change = Create(copy_name, topic.partitions, {**source_configs, MIRROR_OF: str(mark)})
        return TopicCopy(
            *(copy_name, topic.name, Standing.COPIED),
            compacts=compacts,
            origin=mark,
            changes=(change,),
        )
    origin = origin_of(copy.configs)
    standing, reason = _standing(copy_name, mark, origin)
    if standing is not Standing.COPIED:
        return TopicCopy(copy_name, topic.name, standing, origin=origin, reason=reason)
    if copy.configs.get(PAUSED) == "true":
        standing, reason = Standing.PAUSED, "paused: `penstock mirror resume` resumes it"
    changes: list[Change] = []
    if copy.partitions < topic.partitions:
        changes.append(Enlarge(copy_name, topic.partitions))
    if changes_of_configs := _altered(source_configs, copy.configs, keep):
        changes.append(Alter(copy_name, changes_of_configs))
    return TopicCopy(
        *(copy_name, topic.name, standing),
        partitions=min(topic.partitions, copy.partitions),
        compacts=compacts,
        accepted=gaps_of(copy.configs.get(ACCEPT_GAP, "")),
        topic_id=copy.topic_id,
        origin=origin,
        reason=reason,
        changes=tuple(changes),
    )


def _standing(copy_name: str, mark: MirrorOf, origin: MirrorOf | None) -> tuple[Standing, str]:
    if origin is None:
        return Standing.ORDINARY, (
            f"{copy_name} is an ordinary topic at the target: it was promoted, or created by others"
        )
    if (origin.cluster, origin.topic) != (mark.cluster, mark.topic):
        return Standing.FOREIGN, f"{copy_name} is a copy of {origin.place}, not of {mark.place}"
    if origin.topic_id and mark.topic_id and origin.topic_id != mark.topic_id:
        return Standing.RECREATED, (
            f"{mark.place} was recreated: its id is {mark.topic_id}, the copied topic had "
            f"{origin.topic_id}. Delete {copy_name}, so that it is copied from its beginning; or "
            "use another `prefix`"
        )
    return Standing.COPIED, ""


def origin_of(configs: Mapping[str, str]) -> MirrorOf | None:
    """The origin of a copy; None if the topic is not a copy, or its mark is invalid."""
    try:
        return MirrorOf.parse(configs[MIRROR_OF])
    except (KeyError, ValueError):
        return None


def followed(configs: Mapping[str, str], keep: frozenset[str]) -> dict[str, str]:
    """The source's configs that the copy gets."""
    return {name: value for name, value in configs.items() if _is_followed(name, keep)}


def _is_followed(name: str, keep: frozenset[str]) -> bool:
    return name not in keep and not name.startswith((_OURS, *_FOREIGN))


def _altered(
    source_configs: Mapping[str, str], copy_configs: Mapping[str, str], keep: frozenset[str]
) -> dict[str, str | None]:
    changed_values: dict[str, str | None] = {
        name: value for name, value in source_configs.items() if copy_configs.get(name) != value
    }
    removed_names = (
        name for name in copy_configs if name not in source_configs and _is_followed(name, keep)
    )
    return {**changed_values, **dict.fromkeys(removed_names)}
