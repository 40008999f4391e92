"""Types for decoding JSON and MessagePack on several threads.

msgspec (0.22) analyzes a type at its first use, without a lock: another thread that needs the same
type meanwhile, or a type that contains it, reads incomplete data, and the process crashes. So every
decoder first registers its type here, where only one thread at a time analyzes types.

  msgspec.json.decode(data, type=known_type(Manifest))
"""

import threading
from typing import Any, Final, TypeVar

import msgspec

K = TypeVar("K")

_KNOWN: Final[set[Any]] = set()
_LEARNING: Final = threading.Lock()


def known_type(kind: K) -> K:
    """Returns this type, which may then be decoded on any thread. Only for types defined in the
    program's source, as they are kept forever."""
    if kind not in _KNOWN:
        with _LEARNING:
            msgspec.msgpack.Decoder(kind)
            _KNOWN.add(kind)
    return kind
