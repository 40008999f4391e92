"""Who reads which partitions: the paper's assignment, a function of what every member sees.

Of each topic, its partitions and the members that subscribe to it are both put in order. Each
member gets a range: the paper's `n = |P| / |C|`, where the first members get one more if that does
not come out even. So the shares of a topic differ by one at most, and who has the same view has the
same assignment. A share is empty where there are more members than partitions.

    10 partitions, members a, b, c:   a has 0 to 3, b has 4 to 6, c has 7 to 9
"""

from collections.abc import Collection, Mapping

from cluster.values import TopicPartition


def assigned(
    member: str, members: Mapping[str, Collection[str]], partitions: Mapping[str, int]
) -> frozenset[TopicPartition]:
    """The share of one: `members` says which topics each subscribes to, `partitions` how many each
    topic has."""
    return frozenset(
        TopicPartition(topic, number)
        for topic in members.get(member, ())
        for number in _share(member, _subscribers(members, topic), partitions.get(topic, 0))
    )


def _subscribers(members: Mapping[str, Collection[str]], topic: str) -> list[str]:
    return sorted(member for member, topics in members.items() if topic in topics)


def _share(member: str, subscribers: list[str], partitions: int) -> range:
    each, more = divmod(partitions, len(subscribers))
    before = subscribers.index(member)
    first = before * each + min(before, more)
    return range(first, first + each + (before < more))
