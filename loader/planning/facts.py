"""The state of topics in a cluster, for planning a run."""

from collections.abc import Mapping

import msgspec

from loader.values.manifests import TopicState


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The finding that a log diverges from the one that was read, though its name and id are the
    same."""

    same_to: int  # the end of the common part; -1 if unknown
    was: str  # describes the batch that was read
    found: str  # describes what is there now


class PartitionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a partition, from `earliest` up to `end`."""

    leader_epoch: int
    earliest: int
    end: int  # open transactions begin after it
    epoch_end: int | None = None  # the end of the last read batch's leader epoch, if known
    divergence: Divergence | None = None  # None: batches show no divergence


class TopicFacts(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    topic_id: str  # empty if the cluster has none: Apache Kafka before 2.8
    partitions: Mapping[int, PartitionFacts]


def is_another(facts: TopicFacts, known: TopicState) -> bool:
    """Whether the topic was recreated under the same name. Only ids show that."""
    return bool(facts.topic_id and known.topic_id) and facts.topic_id != known.topic_id
