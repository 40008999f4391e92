"""Which partitions of a topic an agent writes to: chosen at first sight, kept for life. Pure.

A topic that gets more partitions later changes nothing for those who wrote to it before: what is
new is for new agents. Only a topic that was deleted and made anew is chosen for again.
"""

from dataclasses import dataclass
from hashlib import sha256

from client.delivery import TopicPartition


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the events of a topic go: to `partition`, or spread over the first `partitions`."""

    topic: str
    topic_id: str  # as Kafka's tools print it; empty where the cluster has no topic ids
    partition: int
    partitions: int

    @property
    def target(self) -> TopicPartition:
        """For whoever does not spread."""
        return TopicPartition(self.topic, self.partition)


def chosen(agent_id: str, topic: str, topic_id: str, partitions: int) -> Placement:
    """The choice of this agent, the same however often it is made."""
    digest = sha256(f"{agent_id}/{topic}".encode()).digest()
    return Placement(topic, topic_id, int.from_bytes(digest[:8], "big") % partitions, partitions)


def is_recreated(known: Placement, topic_id: str, partitions: int) -> bool:
    """Whether the topic of that name is another one now. Where there are no ids, it may be without
    anybody noticing, unless it has fewer partitions, which no topic ever loses."""
    if known.topic_id and topic_id:
        return known.topic_id != topic_id  # with fewer partitions, a broker is only behind
    return partitions < known.partitions
