"""Producer ids, handed out in blocks: no id is ever given twice, in this cluster or another.

An id is a positive int64: 22 random bits that a cluster draws once, then 40 that count. So the ids
of two clusters never meet, although a mirror carries batches, and their ids, from one to the other.
A block whose broker stops is lost, and nobody minds: 40 bits last 35 years at 1,000 ids a second.
"""

import secrets
from collections.abc import Callable
from typing import Final

from cluster import nodes, paths
from cluster.errors import Conflict, Unanswered
from cluster.nodes import ProducerIdsNode
from cluster.operations import Create, Set
from cluster.session import Session

COUNTING_BITS: Final = 40
RANDOM_BITS: Final = 22
_HIGHEST: Final = (1 << COUNTING_BITS) - 1


def allocate(
    session: Session, count: int = 1000, random_bits: Callable[[int], int] = secrets.randbits
) -> range:
    """Take the next `count` ids. Where the answer is lost, the block is too: the next is taken."""
    while True:
        node = session.read(paths.PRODUCER_IDS)
        if node is None:
            first = _first_of_cluster(random_bits)
        else:
            first = nodes.decode(paths.PRODUCER_IDS, node.data, ProducerIdsNode).next_id
        if (first & _HIGHEST) + count > _HIGHEST:  # the counter is used up: draw again
            first = _first_of_cluster(random_bits)
        data = nodes.encode(ProducerIdsNode(next_id=first + count))
        try:
            session.write(
                [Create(paths.PRODUCER_IDS, data)]
                if node is None
                else [Set(paths.PRODUCER_IDS, data, node.version)]
            )
        except (Conflict, Unanswered):  # `read` gives up where ZooKeeper stays away
            continue
        return range(first, first + count)


def _first_of_cluster(random_bits: Callable[[int], int]) -> int:
    """Never 0: ids in which only the counter is set are what other systems start with."""
    return (random_bits(RANDOM_BITS) + 1) << COUNTING_BITS
