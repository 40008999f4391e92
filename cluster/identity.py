"""The cluster's id: created once, written into every data directory, never changed."""

import base64
import uuid
from collections.abc import Callable

from cluster import nodes, paths
from cluster.errors import Cause, Conflict
from cluster.nodes import ClusterNode
from cluster.operations import Create
from cluster.session import Session


def find_cluster_id(session: Session) -> str | None:
    """The id of the cluster whose map this is; None for a map that has never been used.

    A broker that finds None here and an id in its data directory stands before a ZooKeeper that
    was wiped or replaced, and must not create another id.
    """
    node = session.read(paths.CLUSTER_ID)
    if node is None:
        return None
    return nodes.decode(paths.CLUSTER_ID, node.data, ClusterNode).cluster_id


def cluster_id(session: Session, random_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    """The cluster's id, created if there is none. Of several that create it at once, one wins."""
    while (found := find_cluster_id(session)) is None:
        claim_cluster_id(session, new_cluster_id(random_uuid))
    return found


def claim_cluster_id(session: Session, wanted: str) -> None:
    """Give the map this id unless it has one by now."""
    node = Create(paths.CLUSTER_ID, nodes.encode(ClusterNode(cluster_id=wanted)))
    try:
        session.write([node], done=lambda: find_cluster_id(session) is not None)
    except Conflict as conflict:
        if conflict.cause is not Cause.EXISTS:
            raise


def new_cluster_id(random_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    """22 characters, as Kafka's: a random UUID in URL-safe base64 that no shell takes for an
    option."""
    while True:
        text = base64.urlsafe_b64encode(random_uuid().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
