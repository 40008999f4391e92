"""Producer ids of earlier brokers of this cluster: 22 random bits for the cluster, then a counter
of 40 bits. Their node is only read here."""

from typing import Final

from cluster.layout import nodes, paths
from cluster.layout.nodes import ProducerIdsNode
from cluster.session.session import Session

COUNTING_BITS: Final = 40


def drawn_by_cluster(session: Session) -> int | None:
    """The upper bits of these ids; None if there never was such a broker."""
    node = session.read(paths.PRODUCER_IDS)
    if node is None:
        return None
    next_id = nodes.decode(paths.PRODUCER_IDS, node.data, ProducerIdsNode).next_id
    return next_id >> COUNTING_BITS
