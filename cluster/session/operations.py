"""The operations of a ZooKeeper transaction, as values. A transaction succeeds or fails as a whole.

ZooKeeper rejects requests of more than 1 MiB (its `jute.maxbuffer`), so larger sequences are split
into several transactions, in an order in which every prefix is consistent.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

ANY_VERSION: Final = -1  # ZooKeeper's: the node must exist, whatever its version
MAX_BYTES: Final = 768 * 1024  # of one transaction, by the estimate below
_OVERHEAD: Final = 160  # per operation: headers, the access list with its digest, the chroot


class Check(msgspec.Struct, frozen=True):
    """Fails the transaction unless the node exists and has this version."""

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
    """A node as read. ZooKeeper numbers transactions; `created` and `changed` are the numbers of
    the node's creation and last change, which order the writes of different nodes."""

    data: bytes
    version: int
    owner: int  # the session of an ephemeral node; 0 for a persistent one
    created: int = 0
    changed: int = 0


def estimated_bytes(path: str, data: bytes = b"") -> int:
    """The size of an operation as part of a transaction."""
    return len(path) + len(data) + _OVERHEAD


def in_transactions(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    """Splits a sequence of operations, in order, into transactions that ZooKeeper accepts."""
    piece: list[Operation] = []
    size = 0
    for operation in operations:
        data = operation.data if isinstance(operation, Create | Set) else b""
        added_size = estimated_bytes(operation.path, data)
        if piece and size + added_size > MAX_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(operation)
        size += added_size
    if piece:
        yield piece
