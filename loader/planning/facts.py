"""What a cluster says of topics when a run is planned."""

from collections.abc import Mapping

import msgspec

from loader.manifests import TopicState


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The log is another one than was read, though of the same name and id."""

    same_to: int  # up to there it is the same; -1 if nobody knows
    was: str  # the batch that was read, in words
    found: str  # what is there now


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Consumers can read from `earliest` on, up to `end`."""

    leader_epoch: int
    earliest: int
    end: int  # what transactions have still open lies behind it
    epoch_end: int | None = None  # where the epoch of the last batch read ended; if that is known
    parted: Divergence | None = None  # as batches tell; None: nothing speaks against it


class TopicFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that exists."""

    topic: str
    topic_id: str  # empty where the cluster has none: Apache Kafka before 2.8
    partitions: Mapping[int, PartitionFacts]


def is_another(facts: TopicFacts, known: TopicState) -> bool:
    """Whether the topic is not the one that was read, but of the same name. Only ids tell."""
    return bool(facts.topic_id and known.topic_id) and facts.topic_id != known.topic_id
