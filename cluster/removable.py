"""Nodes that are changed by compare-and-set, and removed when nothing is left to say in them.

A node that is made anew begins at version 0 again. So its version alone does not tell that it is
the one which was read: that may have been removed meanwhile, and somebody else have made what is
there now. The node above counts removals with its own version, and every change checks that nothing
was removed below it since the node was read.
"""

from collections.abc import Callable
from typing import NamedTuple

from cluster.operations import Check, Create, Delete, Operation, Set
from cluster.session import Session


class Removable(NamedTuple):
    """A node as it was read, or that there is none."""

    path: str
    data: bytes | None
    version: int
    removals: int  # the version of the node above

    def replace(self, session: Session, data: bytes, done: Callable[[], bool]) -> None:
        """Have this stand there; see `Session.write`. Raises Conflict if it is not as it was."""
        operations: list[Operation] = [Create(self.path, data)]
        if self.data is not None:
            unchanged = Check(_above(self.path), self.removals)
            operations = [unchanged, Set(self.path, data, self.version)]
        session.write(operations, done)

    def remove(self, session: Session, done: Callable[[], bool]) -> None:
        """Likewise, nothing."""
        counted = Set(_above(self.path), b"", self.removals)
        session.write([counted, Delete(self.path, self.version)], done)


def read(session: Session, path: str) -> Removable:
    """The node above is read first: what is removed after that is noticed."""
    above = session.read(_above(path))
    node = session.read(path)
    removals = 0 if above is None else above.version
    if node is None:
        return Removable(path, None, 0, removals)
    return Removable(path, node.data, node.version, removals)


def _above(path: str) -> str:
    return path.rpartition("/")[0]
