"""Types that JSON and MessagePack are decoded as, by any number of threads.

msgspec learns a type when it is first asked for it, and says nothing of what follows (0.22): while
one thread does so, another that wants the same type, or one that it is made of, reads what is half
there, and the process dies. So whoever decodes asks here first, and each type is learnt by one.

    msgspec.json.decode(data, type=known_type(Manifest))
"""

import threading
from typing import Any, Final, TypeVar

import msgspec

K = TypeVar("K")

_KNOWN: Final[set[Any]] = set()
_LEARNING: Final = threading.Lock()


def known_type(kind: K) -> K:
    """This type, which from now on anybody may decode as. Of types of the program's text only: none
    is forgotten."""
    if kind not in _KNOWN:
        with _LEARNING:
            msgspec.msgpack.Decoder(kind)
            _KNOWN.add(kind)
    return kind
