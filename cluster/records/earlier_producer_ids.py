"""Producer ids that earlier releases assigned: 22 random bits for the cluster, then a counter of 40
bits. This release only reads their node."""

from typing import Final

from cluster.layout import nodes, paths
from cluster.layout.nodes import ProducerIdsNode
from cluster.session.session import Session

COUNTING_BITS: Final = 40


def drawn_by_cluster(session: Session) -> int | None:
    """Returns the cluster's upper bits of these ids; None if no such id was ever assigned."""
    node = session.read(paths.PRODUCER_IDS)
    if node is None:
        return None
    next_id = nodes.decode(paths.PRODUCER_IDS, node.data, ProducerIdsNode).next_id
    return next_id >> COUNTING_BITS
