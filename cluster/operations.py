"""The parts of a ZooKeeper transaction, as values. All of a transaction happens, or none of it.

ZooKeeper refuses a request of more than 1 MiB (its `jute.maxbuffer`), so what may be larger is cut
into several transactions, in an order of which every beginning makes sense.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

ANY_VERSION: Final = -1  # ZooKeeper's: the node must exist, whatever its version
MAX_BYTES: Final = 768 * 1024  # of one transaction, by the estimate below
_OVERHEAD: Final = 160  # of an operation: headers, the access list with its digest, the chroot


class Check(msgspec.Struct, frozen=True):
    """Fail the transaction unless the node exists and has this version."""

    path: str
    version: int = ANY_VERSION


class Create(msgspec.Struct, frozen=True):
    path: str
    data: bytes = b""
    ephemeral: bool = False


class Set(msgspec.Struct, frozen=True):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True):
    path: str
    version: int = ANY_VERSION


Operation = Check | Create | Set | Delete


class Node(msgspec.Struct, frozen=True):
    """A node as it was read. ZooKeeper numbers its transactions, and says in which of them a node
    was created and last changed: so it is known of two nodes which was written first."""

    data: bytes
    version: int
    owner: int  # the session that an ephemeral node ends with; 0 for a persistent one
    created: int = 0
    changed: int = 0


def estimated_bytes(path: str, data: bytes = b"") -> int:
    """Of an operation, as part of a transaction."""
    return len(path) + len(data) + _OVERHEAD


def in_transactions(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    """Cut a sequence of operations, in order, into pieces that ZooKeeper takes."""
    piece: list[Operation] = []
    size = 0
    for operation in operations:
        data = operation.data if isinstance(operation, Create | Set) else b""
        more = estimated_bytes(operation.path, data)
        if piece and size + more > MAX_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(operation)
        size += more
    if piece:
        yield piece
