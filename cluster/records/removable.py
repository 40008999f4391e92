"""Nodes that are changed by compare-and-set, and removed when they become empty.

A recreated node starts at version 0 again. So its version does not prove that it is the node that
was read: that may have been removed and recreated by another client. The folder's version counts
removals, and every change checks that nothing was removed there since the node was read.
"""

from collections.abc import Callable
from typing import NamedTuple

from cluster.session.operations import Check, Create, Delete, Operation, Set
from cluster.session.session import Session


def nothing_removed(session: Session, folder: str) -> Check:
    """Returns a check that no node has been removed from a folder since this call; create it before
    reading the node to change."""
    node = session.read(folder)
    return Check(folder, 0 if node is None else node.version)


def counted(folder: str) -> Set:
    """Returns the operation that counts a removal, for the transaction that removes a node."""
    return Set(folder, b"")


class Removable(NamedTuple):
    """A node as read, or its absence."""

    path: str
    data: bytes | None
    version: int
    unchanged: Check  # of the folder

    def replace(self, session: Session, data: bytes, done: Callable[[], bool]) -> None:
        """Sets the node's data; see `Session.write`. Raises Conflict if it has changed."""
        operations: list[Operation] = [Create(self.path, data)]
        if self.data is not None:
            operations = [self.unchanged, Set(self.path, data, self.version)]
        session.write(operations, done)

    def remove(self, session: Session, done: Callable[[], bool]) -> None:
        """Removes the node; see `replace`."""
        removal = counted(self.unchanged.path)
        session.write([self.unchanged, removal, Delete(self.path, self.version)], done)


def read(session: Session, path: str) -> Removable:
    removal_check = nothing_removed(session, path.rpartition("/")[0])
    node = session.read(path)
    if node is None:
        return Removable(path, None, 0, removal_check)
    return Removable(path, node.data, node.version, removal_check)
