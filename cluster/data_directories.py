"""Which data directory a broker had last, by its id: `/brokers/directories/{broker}`.

A broker that comes back with another one has none of its logs: its disk was replaced, is not
mounted, or somebody has emptied it. The map alone can tell that from a broker that is new.
Written once a broker has opened all its logs, so that a start that was cut short is made good.
"""

from functools import partial
from uuid import UUID

from cluster import nodes, paths
from cluster.errors import Conflict
from cluster.nodes import DirectoryNode
from cluster.operations import Create, Operation, Set
from cluster.session import Session


def last_directory(session: Session, broker_id: int) -> UUID | None:
    """None if the map knows of none: the broker is new, or of a release that did not say so."""
    path = paths.data_directory(broker_id)
    node = session.read(path)
    return None if node is None else nodes.decode(path, node.data, DirectoryNode).directory_id


def note_directory(session: Session, broker_id: int, directory_id: UUID) -> None:
    """This is the one it has now."""
    path, data = (
        paths.data_directory(broker_id),
        nodes.encode(DirectoryNode(directory_id=directory_id)),
    )
    while last_directory(session, broker_id) != directory_id:
        operation: Operation = Set(path, data) if session.exists(path) else Create(path, data)
        try:
            session.write([operation], done=partial(_is, session, broker_id, directory_id))
        except Conflict:
            continue


def _is(session: Session, broker_id: int, directory_id: UUID) -> bool:
    return last_directory(session, broker_id) == directory_id
