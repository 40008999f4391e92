"""Announces that a broker is about to stop, so that the controller moves its leaderships first.

`/brokers/draining/{id}` is ephemeral, so it ends with the process; after a kill it stays for a
session's time, and the broker's next process removes it (brokers.py).
"""

from cluster.errors import Cause, Conflict
from cluster.layout import paths
from cluster.session.operations import Create
from cluster.session.session import Session


def announce(session: Session, broker_id: int) -> None:
    """Announces the stop. Blocks."""
    path = paths.draining(broker_id)
    try:
        session.write([Create(path, ephemeral=True)], done=lambda: session.exists(path))
    except Conflict as conflict:
        if conflict.cause is not Cause.EXISTS:
            raise
