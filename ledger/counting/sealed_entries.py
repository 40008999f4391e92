"""Entries as they are sent: encoded and proven once, so that they are the same bytes each time."""

from collections.abc import Callable
from typing import NamedTuple

from ledger.counting.batches import Json
from ledger.proofs import Chain

Encode = Callable[[Json], bytes]


class SealedEntry(NamedTuple):
    """An entry, its value in the record, and its proof in the record's header."""

    entry: Json
    value: bytes
    proof: bytes


def sealed(entry: Json, chain: Chain, encode: Encode, now: float) -> SealedEntry:
    """Encodes and proves an entry, which becomes the last of the chain. `now` is a monotonic time
    in seconds."""
    value = encode(entry)
    return SealedEntry(entry, value, chain.prove(value, now).encoded)
