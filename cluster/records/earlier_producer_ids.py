"""Producer ids that earlier brokers of this cluster have handed out: 22 random bits that the
cluster drew once, then 40 that counted. Its node is theirs, and is only read here."""

from typing import Final

from cluster.layout import nodes, paths
from cluster.layout.nodes import ProducerIdsNode
from cluster.session.session import Session

COUNTING_BITS: Final = 40


def drawn_by_cluster(session: Session) -> int | None:
    """The upper bits of all of them; None if there never was such a broker."""
    node = session.read(paths.PRODUCER_IDS)
    if node is None:
        return None
    next_id = nodes.decode(paths.PRODUCER_IDS, node.data, ProducerIdsNode).next_id
    return next_id >> COUNTING_BITS
