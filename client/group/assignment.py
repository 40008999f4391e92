"""Assigns partitions to members: the paper's assignment, a function of state that all members see.

For each topic, its partitions and the members that subscribe to it are sorted. Each member gets a
range of the paper's `n = |P| / |C|` partitions; if that leaves a remainder, the first members get
one more. So the shares of a topic differ by at most one, and members with the same view compute the
same assignment. A share is empty if there are more members than partitions.

    10 partitions, members a, b, c:   a has 0 to 3, b has 4 to 6, c has 7 to 9
"""

from collections.abc import Collection, Mapping

from cluster.values import TopicPartition


def assigned(
    member: str, members: Mapping[str, Collection[str]], partitions: Mapping[str, int]
) -> frozenset[TopicPartition]:
    """Returns the share of `member`, given each member's topics and each topic's number of
    partitions."""
    return frozenset(
        TopicPartition(topic, partition)
        for topic in members.get(member, ())
        for partition in _share(member, _subscribers(members, topic), partitions.get(topic, 0))
    )


def _subscribers(members: Mapping[str, Collection[str]], topic: str) -> list[str]:
    return sorted(member for member, topics in members.items() if topic in topics)


def _share(member: str, subscribers: list[str], partitions: int) -> range:
    share, remainder = divmod(partitions, len(subscribers))
    position = subscribers.index(member)
    first_partition = position * share + min(position, remainder)
    return range(first_partition, first_partition + share + (position < remainder))
