"""Reads from the ledger which batches agents have signed: the digests of their passages.

Only what a journal proves by itself counts (signed_journals.py): no broker, mirror or audit needs
to be believed. What a passage says of sources that another signed journal owns is left out.

Pure. For one thread.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ledger.names import VERSION
from ledger.passage_digests import PASSAGE_BYTES
from ledger.signed_journals import EntryName, SignedJournals
from ledger.source_ids import owner_of

_HOUR_MILLIS: Final = 3_600_000


class SignedPassage(msgspec.Struct, frozen=True, array_like=True):
    """What an agent has signed of the batches at some offsets of a partition."""

    journal: str
    host: str
    topic: str
    topic_id: str
    partition: int
    stretches: tuple[tuple[int, int], ...]  # of offsets, half-open, in ascending order
    digest: bytes
    hours: tuple[int, ...]  # of the events' times, milliseconds
    read_at: int  # when it was read, milliseconds


class _Pending(msgspec.Struct, frozen=True, array_like=True):
    seq: int
    digest: bytes  # of the entry
    passages: list[SignedPassage]


class PassageReader(msgspec.Struct):
    """Collects the proven passages of some topics, from chunk to chunk."""

    journals: SignedJournals = msgspec.field(default_factory=SignedJournals)
    pending: dict[str, list[_Pending]] = {}  # by journal
    signed: dict[str, int] = {}  # when a passage of the topic was last read, milliseconds

    def take(
        self,
        body: pa.StructArray,
        proofs: pa.StructArray | None,
        topics: Collection[str],
        now: int = 0,
    ) -> list[SignedPassage]:
        """Returns the passages of these topics that the next entries state or prove. `now` is the
        time in milliseconds."""
        chunk = self.journals.examine(body, proofs, now)
        passages = [
            passage
            for name in chunk.since_proven
            for passage in self._settled(name)
            if passage.topic in topics
        ]
        for name in chunk.dropped:
            self._settled(name)
        stated = _stated(body, topics, {*chunk.proven, *chunk.pending}, now)
        owners = self.journals.owners() if stated else {}
        for row in chunk.proven:
            passages += _own(stated.get(row, ()), owners)
        for row, name in chunk.pending.items():
            if own_passages := _own(stated.get(row, ()), owners):
                pending = _Pending(name.seq, name.digest, own_passages)
                self.pending.setdefault(name.journal, []).append(pending)
        self.signed |= dict.fromkeys((passage.topic for passage in passages), now)
        return passages

    def forget(self, read_before: int) -> None:
        """Drops journals and topics of which nothing was read since `read_before`."""
        self.journals.forget(read_before)
        self.signed = {topic: time for topic, time in self.signed.items() if time >= read_before}
        self.pending = {
            journal: entries
            for journal, entries in self.pending.items()
            if journal in self.journals.states
        }

    def _settled(self, name: EntryName) -> list[SignedPassage]:
        """Removes a pending entry, and returns its passages."""
        entries = self.pending.pop(name.journal, [])
        settled = [entry for entry in entries if (entry.seq, entry.digest) == name[1:]]
        if remaining := [entry for entry in entries if (entry.seq, entry.digest) != name[1:]]:
            self.pending[name.journal] = remaining
        return settled[0].passages if settled else []


_Stated = tuple[SignedPassage, frozenset[str]]  # and the owners of its sources


def _stated(
    body: pa.StructArray, topics: Collection[str], rows: Collection[int], now: int
) -> dict[int, list[_Stated]]:
    """Returns, by row, the passages with digests in these topics."""
    by_row: dict[int, list[_Stated]] = {}
    passages = body.field("passages")
    flat_passages = passages.flatten()
    entry = pc.list_parent_indices(passages)
    is_known = pc.less_equal(body.field("version"), VERSION).take(entry)
    has_digest = pc.equal(pc.binary_length(flat_passages.field("digest")), PASSAGE_BYTES)
    names = pa.array(sorted(topics), pa.string())
    is_wanted = pc.is_in(flat_passages.field("topic"), value_set=names)
    is_needed = pc.is_in(entry, value_set=pa.array(sorted(rows), entry.type))
    places = pc.indices_nonzero(
        pc.and_(pc.and_(is_known, has_digest), pc.and_(is_wanted, is_needed))
    )
    if not len(places):
        return by_row
    entry, chosen = entry.take(places), flat_passages.take(places)
    header = body.field("header")
    columns = (
        entry,
        *(header.field(name).take(entry) for name in ("source", "host")),
        *(chosen.field(name) for name in ("topic", "topic_id", "partition", "digest")),
    )
    lists = (("offsets", "first"), ("offsets", "count"), ("windows", "start"), ("runs", "source"))
    for row, journal, host, topic, topic_id, partition, digest, *parts in zip(
        *(column.to_pylist() for column in columns),
        *(_lists(chosen.field(name), part) for name, part in lists),
        strict=True,
    ):
        firsts, counts, starts, sources = parts
        stretches = tuple(
            (first, first + count) for first, count in zip(firsts, counts, strict=True)
        )
        if not stretches or not _is_ascending(stretches):
            continue
        passage = SignedPassage(
            journal,
            host,
            topic,
            topic_id,
            partition,
            stretches,
            digest,
            tuple(sorted({start - start % _HOUR_MILLIS for start in starts})),
            now,
        )
        by_row.setdefault(row, []).append((passage, frozenset(map(owner_of, sources))))
    return by_row


def _lists(column: pa.ListArray, field: str) -> Iterator[list[Any]]:
    """Yields the values of one field of each list of structs."""
    values, first = column.flatten().field(field).to_pylist(), 0
    for length in pc.list_value_length(column).to_pylist():
        yield values[first : first + length]
        first += length


def _is_ascending(stretches: Sequence[tuple[int, int]]) -> bool:
    ends = [0, *(end for _, end in stretches)]
    return all(end <= first < after for end, (first, after) in zip(ends, stretches, strict=False))


def _own(stated: Iterable[_Stated], owners: dict[str, str]) -> list[SignedPassage]:
    """Returns the passages without events of a source that another signed journal owns."""
    return [
        passage
        for passage, sources in stated
        if all(owners.get(owner, passage.journal) == passage.journal for owner in sources)
    ]
