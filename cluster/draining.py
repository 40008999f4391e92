"""A broker that is about to stop says so: whoever makes leaders takes it out of the lead first.

`/brokers/draining/{id}` is ephemeral, so what a process said ends with it; a process that was
killed meanwhile leaves its word for a session's time, and the next one takes it back (brokers.py).
"""

from cluster import paths
from cluster.errors import Cause, Conflict
from cluster.operations import Create
from cluster.session import Session


def announce(session: Session, broker_id: int) -> None:
    """Blocks."""
    path = paths.draining(broker_id)
    try:
        session.write([Create(path, ephemeral=True)], done=lambda: session.exists(path))
    except Conflict as conflict:
        if conflict.cause is not Cause.EXISTS:
            raise
