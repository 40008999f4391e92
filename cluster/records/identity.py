"""The cluster's id: created once, stored in every data directory, never changed."""

import base64
import uuid
from collections.abc import Callable

from cluster.errors import Cause, Conflict
from cluster.layout import nodes, paths
from cluster.layout.nodes import ClusterNode
from cluster.session.operations import Create
from cluster.session.session import Session


def find_cluster_id(session: Session) -> str | None:
    """Returns the id of the map's cluster; None if the map was never used.

    A broker that finds None, but has an id in its data directory, faces a ZooKeeper that was wiped
    or replaced, and must not create another id.
    """
    node = session.read(paths.CLUSTER_ID)
    if node is None:
        return None
    return nodes.decode(paths.CLUSTER_ID, node.data, ClusterNode).cluster_id


def cluster_id(session: Session, random_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    """Returns the cluster's id, which is created if missing. If several processes create it
    concurrently, one of the ids wins."""
    while (known_id := find_cluster_id(session)) is None:
        claim_cluster_id(session, new_cluster_id(random_uuid))
    return known_id


def claim_cluster_id(session: Session, wanted: str) -> None:
    """Sets the map's id, unless the map has one."""
    node = Create(paths.CLUSTER_ID, nodes.encode(ClusterNode(cluster_id=wanted)))
    try:
        session.write([node], done=lambda: find_cluster_id(session) is not None)
    except Conflict as conflict:
        if conflict.cause is not Cause.EXISTS:
            raise


def new_cluster_id(random_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    """Returns a new id of 22 characters, like Kafka's: a random UUID in URL-safe base64 that does
    not begin with `-`, which shells would take for an option."""
    while True:
        text = base64.urlsafe_b64encode(random_uuid().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
