"""Decodes ledger entries and their proofs from record batches to columns, many at once.

Each heartbeat is a batch of one record, and a large fleet sends millions of them in a night. So
batches are collected and decoded natively together (columns.py); if that fails, one by one.

Unreadable entries are left out and counted. Entries of a later version are returned: the fact that
they exist counts. If the registry does not know an entry's schema, the registry may be a follower
that has not copied it yet: for an entry of the last minute, reading stops with `SchemaNotThere`, to
be repeated.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from client.reading.fetcher import FetchedBatch
from client.reading.plain_batches import PlainBatch, PlainBatches
from ledger.columns import ColumnsOfLedger, columns_of, no_entries
from ledger.frames import Frames, NotTogether
from ledger.lookup import Lookup
from ledger.proof_columns import PROOF_TYPE, proof_columns, proofs_of
from schemas.envelope import Decoder, split
from schemas.errors import BadMessage, RegistryError
from schemas.event_schemas import LEDGER, built_in
from wire.errors import BatchError
from wire.record_batches.batch import read_header
from wire.record_batches.records import Record, records

GATHERED_BYTES: Final = 8 * 1024 * 1024
_FEW: Final = 16  # at most so many batches are read one by one without dividing them further
_MOST_PRODUCERS: Final = 1_000_000
_YOUNG_MILLIS: Final = 60_000
_AGENT: Final = "agent"

log = logging.getLogger(__name__)


class SchemaNotThere(RegistryError):
    """The registry does not yet have the schema of a recent entry."""


class LedgerRows(msgspec.Struct, frozen=True):
    """Entries as `LEDGER_TYPE`, and as many rows of their digests and proofs, as `PROOF_TYPE`, with
    the values of agents' entries."""

    body: pa.StructArray
    proofs: pa.StructArray

    @classmethod
    def joined(cls, parts: Iterable["LedgerRows"]) -> "LedgerRows":
        filled_parts = [part for part in parts if len(part)]
        if not filled_parts:
            return cls(no_entries(), pa.array([], PROOF_TYPE))
        if len(filled_parts) == 1:
            return filled_parts[0]
        return cls(
            pa.concat_arrays([part.body for part in filled_parts]),
            pa.concat_arrays([part.proofs for part in filled_parts]),
        )

    @property
    def nbytes(self) -> int:
        return int(self.body.nbytes + self.proofs.nbytes)

    def __len__(self) -> int:
        return len(self.body)


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


class LedgerEntries:
    """Decodes batches, which must be added in the order of their partition, to columns. For one
    thread."""

    def __init__(self, lookup: Lookup, now_millis: Callable[[], int] = _now_millis) -> None:
        """`lookup` returns the schema of an id, or None; its exceptions pass through."""
        self.left_out = 0  # in total
        self._now_millis = now_millis
        self._lookup = lookup
        self._decoder = Decoder(lookup, built_in(LEDGER))
        self._columns: dict[int, ColumnsOfLedger | None] = {}  # by schema
        self._schema_of: dict[int, int] = {}  # by producer: what it wrote with last
        self._usual = -1
        self._gathered: list[PlainBatch] = []
        self._bytes = 0

    def add(self, batch: FetchedBatch) -> LedgerRows | None:
        """Collects a batch. Returns the collected entries once they amount to `GATHERED_BYTES`."""
        header, data = batch.header, bytes(batch.data)
        self._gathered.append((header.producer_id, header.codec, header.record_count, data))
        self._bytes += len(data)
        return self.take() if self._bytes >= GATHERED_BYTES else None

    def add_all(self, plain: PlainBatches) -> LedgerRows | None:
        """Collects batches. Returns the collected entries once they amount to `GATHERED_BYTES`."""
        self._gathered += plain.batches
        self._bytes += plain.size
        return self.take() if self._bytes >= GATHERED_BYTES else None

    def forget(self) -> None:
        """Drops entries that were added but not taken; the caller adds them again."""
        self._gathered, self._bytes = [], 0

    def leave_out(self, entries: int, reason: str) -> None:
        """Counts skipped entries, and logs the first occurrence."""
        if entries and not self.left_out:
            log.warning("ledger entries skipped error=%r", reason)
        self.left_out += entries

    def take(self) -> LedgerRows:
        """Returns all entries added since the last call, in the order of each journal."""
        gathered_batches, self._gathered, self._bytes = self._gathered, [], 0
        if self._usual < 0:
            self._usual = _schema_of_first(gathered_batches)
        parts: list[LedgerRows] = []
        for schema_id, batches in self._by_schema(gathered_batches).items():
            parts += self._together(self._columns_of(schema_id), batches)
        return LedgerRows.joined(parts)

    def _by_schema(self, batches: list[PlainBatch]) -> Mapping[int, list[PlainBatch]]:
        """The batches by probable schema: a producer usually keeps its schema."""
        if not self._schema_of:
            return {self._usual: batches}
        by_schema: defaultdict[int, list[PlainBatch]] = defaultdict(list)
        for batch in batches:
            by_schema[self._schema_of.get(batch[0], self._usual)].append(batch)
        return by_schema

    def _together(
        self, columns: ColumnsOfLedger | None, batches: Sequence[PlainBatch]
    ) -> list[LedgerRows]:
        """Decodes all batches in one call, or if that fails, each half by itself."""
        if columns is None or len(batches) <= _FEW:
            pairs = [pair for batch in batches for pair in self._one_by_one(batch)]
            body = columns_of([entry for entry, _ in pairs])
            proofs = proofs_of((record, entry["tier"] == _AGENT) for entry, record in pairs)
            return [LedgerRows(body, proofs)]
        try:
            frames = Frames.of(batches)
            body = columns.read(frames)
            is_agent = pc.equal(body.field("tier"), _AGENT)
            return [LedgerRows(body, proof_columns(frames.data, frames.count, is_agent))]
        except (NotTogether, BatchError):
            middle = len(batches) // 2
            first_half = self._together(columns, batches[:middle])
            return first_half + self._together(columns, batches[middle:])

    def _columns_of(self, schema_id: int) -> ColumnsOfLedger | None:
        if schema_id not in self._columns:
            schema = self._lookup(schema_id) if schema_id >= 0 else None
            if schema is None:
                return None
            self._columns[schema_id] = ColumnsOfLedger.of(schema, schema_id)
        return self._columns[schema_id]

    def _one_by_one(self, batch: PlainBatch) -> Iterator[tuple[Mapping[str, Any], Record]]:
        producer, _, count, data = batch
        try:
            batch_records = list(records(data))
        except BatchError as error:
            self.leave_out(count, str(error))
            return
        for record in batch_records:
            value = record.value or b""
            try:
                entry = self._decoder.decode(value)
            except BadMessage as error:
                self._wait_for_schema(value, data)
                self.leave_out(1, str(error))
                continue
            if len(self._schema_of) >= _MOST_PRODUCERS:
                self._schema_of.clear()
            self._schema_of[producer] = split(value)[0]
            yield entry, record

    def _wait_for_schema(self, value: bytes, batch: bytes) -> None:
        """Raises SchemaNotThere if the schema may still arrive."""
        age = self._now_millis() - read_header(batch).max_timestamp
        if not 0 <= age < _YOUNG_MILLIS:
            return
        try:
            schema_id, _ = split(value)
        except BadMessage:
            return
        if self._lookup(schema_id) is None:
            raise SchemaNotThere(f"the registry does not have schema {schema_id} yet")


def _schema_of_first(batches: Iterable[PlainBatch]) -> int:
    """The schema id of the first readable batch; -1 if there is none."""
    for *_, data in batches:
        try:
            return split(next(records(data)).value or b"")[0]
        except (BatchError, BadMessage, StopIteration):
            continue
    return -1
