"""Nodes that are changed by compare-and-set, and removed when nothing is left to say in them.

A node that is made anew begins at version 0 again. So its version alone does not tell that it is
the one which was read: that may have been removed meanwhile, and somebody else have made what is
there now. The folder that it stands in counts removals with its own version, and every change
checks that nothing was removed there since the node was read.
"""

from collections.abc import Callable
from typing import NamedTuple

from cluster.operations import Check, Create, Delete, Operation, Set
from cluster.session import Session


def nothing_removed(session: Session, folder: str) -> Check:
    """That nothing was removed from a folder from now on: to be read before what is to change."""
    node = session.read(folder)
    return Check(folder, 0 if node is None else node.version)


def counted(folder: str) -> Set:
    """A removal from that folder, to be part of the transaction that removes something."""
    return Set(folder, b"")


class Removable(NamedTuple):
    """A node as it was read, or that there is none."""

    path: str
    data: bytes | None
    version: int
    unchanged: Check  # of the folder

    def replace(self, session: Session, data: bytes, done: Callable[[], bool]) -> None:
        """Have this stand there; see `Session.write`. Raises Conflict if it is not as it was."""
        operations: list[Operation] = [Create(self.path, data)]
        if self.data is not None:
            operations = [self.unchanged, Set(self.path, data, self.version)]
        session.write(operations, done)

    def remove(self, session: Session, done: Callable[[], bool]) -> None:
        """Likewise, nothing."""
        removal = counted(self.unchanged.path)
        session.write([self.unchanged, removal, Delete(self.path, self.version)], done)


def read(session: Session, path: str) -> Removable:
    unchanged = nothing_removed(session, path.rpartition("/")[0])
    node = session.read(path)
    if node is None:
        return Removable(path, None, 0, unchanged)
    return Removable(path, node.data, node.version, unchanged)
