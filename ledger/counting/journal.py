"""Stores a counter's state in one small file, which is replaced as a whole.

The file has the journal's name (the source of its entries), the number of the next entry, the place
up to which each partition is counted, and the unacknowledged entries. An entry and the places that
it reaches are written together, before the entry is sent. So after a crash, either a stretch is
counted again that was never sent, or an entry is sent again under its old number: nothing is
reported under two numbers, and nothing is left out.

The file also has the entries as they are sent, encoded and proven, and the head of their chain
(ledger/proofs.py). An entry is sealed like that as soon as its schema's id is known, at the latest
before it is sent. The parts of an entry that was too large continue the chain behind the entries
that were sealed already: each entry has a proof of its own, so readers need no order.

The file has a checksum. A damaged file is never replaced by a guess, which would count everything
again: counting stops until an operator repairs or removes the file (CounterFileDamaged).
"""

import logging
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from crc32c import crc32c
from msgspec.structs import replace

from ground.files.durable_files import replacing
from ground.known_types import known_type
from ground.signatures.keys import PublicKey, SigningKey
from ledger.counting.batches import Json
from ledger.counting.sealed_entries import Encode, SealedEntry, sealed
from ledger.proofs import NO_HEAD, Chain

log = logging.getLogger(__name__)

_MAGIC: Final = b"penstock counter 1\n"
_SUM_SIZE: Final = 4


class CounterFileDamaged(Exception):
    """The counter's file is damaged, or of an unknown version."""


class PartitionKey(NamedTuple):
    """A partition of one topic. The id distinguishes the topic from others of the same name."""

    topic: str
    topic_id: str
    partition: int


class CountPosition(NamedTuple):
    """The offset up to which a partition is counted.

    `segment` and `byte` are a hint where that is, -1 if unknown. Everything counted from there on
    has at least this leader epoch. `led` is the newest leader epoch whose begin was reported.
    """

    next_offset: int
    segment: int = -1
    byte: int = -1
    leader_epoch: int = -1
    led: int = 0


class _File(msgspec.Struct, array_like=True):
    """`seals` are values and proofs of the first pending entries; `key` is the public key that the
    journal was last signed with. Releases without signatures ignore the last three fields."""

    source: str
    next_seq: int
    places: list[tuple[PartitionKey, CountPosition]]
    pending: list[Any]
    key: bytes = b""
    head: bytes = NO_HEAD
    seals: list[tuple[bytes, bytes]] = []


class CountingJournal:
    """The journal of counts. Used by one process, which holds the directory's lock. Its methods
    block."""

    def __init__(self, path: Path, kind: str, key: SigningKey) -> None:
        """The source of a new journal begins with `kind`. Raises CounterFileDamaged."""
        self._path = path
        file = _read(path)
        self.is_new = file is None
        self._file = file or _File(f"{kind}-{secrets.token_hex(16)}", 0, [], [])
        if self._file.key not in {b"", key.public.raw}:
            log.warning(
                "signing key is another: journal=%s former=%s now=%s; the audit rejects what a "
                "journal signs with an unknown key: put the former key back, or remove %s",
                self._file.source,
                PublicKey(self._file.key).fingerprint,
                key.public.fingerprint,
                path,
            )
        self._chain = Chain(key, self._file.head)
        self._places = dict(self._file.places)

    @property
    def source(self) -> str:
        return self._file.source

    @property
    def next_seq(self) -> int:
        return self._file.next_seq

    @property
    def pending(self) -> list[Json]:
        """The entries that the ledger has not acknowledged."""
        return self._file.pending

    @property
    def places(self) -> Mapping[PartitionKey, CountPosition]:
        return self._places

    def write(
        self,
        entries: Collection[Json],
        places: Mapping[PartitionKey, CountPosition],
        forgotten: Collection[PartitionKey] = (),
        encode: Encode | None = None,
    ) -> None:
        """Stores new pending entries, and the positions up to which they count; seals them if they
        can be encoded already. Raises OSError; then nothing changes."""
        merged_places = {**self._places, **places}
        for key in forgotten:
            merged_places.pop(key, None)
        file = replace(
            self._file,
            next_seq=self._file.next_seq + len(entries),
            places=list(merged_places.items()),
            pending=[*self._file.pending, *entries],
        )
        self._store(file, encode)
        self._places = merged_places

    def sealed(self, at: int, encode: Encode) -> SealedEntry:
        """Returns the pending entry at this index as it is sent; seals all that are not yet.
        Raises OSError, and the errors of `encode`; then nothing changes."""
        if len(self._file.seals) < len(self._file.pending):
            self._store(self._file, encode)
        return SealedEntry(self._file.pending[at], *self._file.seals[at])

    def split(self, at: int, parts: Sequence[Json], encode: Encode) -> None:
        """Replaces the pending entry at this index, which was rejected, with parts of it. The first
        part keeps the entry's number, the others get new numbers. Raises OSError; then nothing
        changes."""
        pending_entries, next_seq = list(self._file.pending), self._file.next_seq
        for part in parts[1:]:
            pending_entries.append({**part, "header": {**part["header"], "seq": next_seq}})
            next_seq += 1
        pending_entries[at] = parts[0]
        # A new chain, as the rejected entry may have been the one with the key.
        chain = Chain(self._chain.key, self._chain.head)
        _, *seal = sealed(parts[0], chain, encode, time.monotonic())
        seals = [*self._file.seals[:at], tuple(seal), *self._file.seals[at + 1 :]]
        file = replace(self._file, next_seq=next_seq, pending=pending_entries, seals=seals)
        self._store(file, encode, chain)

    def acknowledged(self) -> None:
        """Drops the pending entries, because they are in the ledger. The file is updated by the
        next write; after a crash before that, the entries are sent once more, which is harmless."""
        self._file.pending, self._file.seals = [], []

    def _store(self, file: _File, encode: Encode | None, chain: Chain | None = None) -> None:
        """Replaces the file, with seals for all pending entries if they can be encoded."""
        chain = copy(self._chain) if chain is None else chain
        seals = list(file.seals)
        if encode is not None:
            for entry in file.pending[len(seals) :]:
                _, value, proof = sealed(entry, chain, encode, time.monotonic())
                seals.append((value, proof))
        file = replace(file, key=chain.key.public.raw, head=chain.head, seals=seals)
        body = msgspec.msgpack.encode(file)
        with replacing(self._path) as out:
            out.write(_MAGIC + crc32c(body).to_bytes(_SUM_SIZE, "big"))
            out.write(body)
        self._file, self._chain = file, chain


def counted_places(path: Path) -> Mapping[PartitionKey, CountPosition]:
    """Returns the place up to which each partition is counted, from a counter's file. Raises
    CounterFileDamaged."""
    file = _read(path)
    return {} if file is None else dict(file.places)


def _read(path: Path) -> _File | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    begin = len(_MAGIC) + _SUM_SIZE
    checksum = content[len(_MAGIC) : begin]
    if not content.startswith(_MAGIC) or crc32c(content[begin:]) != int.from_bytes(checksum, "big"):
        raise CounterFileDamaged(
            f"{path} is damaged or of an unknown version: counting has stopped. Restore the file, "
            "or remove it: then everything in the logs is counted again under a new source"
        )
    try:
        return msgspec.msgpack.decode(content[begin:], type=known_type(_File))
    except msgspec.DecodeError as error:
        raise CounterFileDamaged(f"{path}: {error}") from None
