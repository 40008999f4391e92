"""Entries of the ledger out of record batches, many at once, as columns.

A heartbeat is a batch of its own with one record, and a night of a large fleet has millions of
them. So batches are gathered and read together, natively (columns.py). Where that is not possible
they are read one by one, with all care.

Entries that cannot be read are left out and counted. Those of a later version are handed out: that
they came is known, whatever they mean. An entry whose schema the registry does not know is as young
as its schema may be, and a registry that follows another one may not have it yet: for a while it is
waited for (`SchemaNotThere`), and everything behind it.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from client.fetcher import FetchedBatch
from client.plain_batches import PlainBatch, PlainBatches
from ledger.columns import ColumnsOfLedger, columns_of, no_entries
from ledger.frames import Frames, NotTogether
from ledger.lookup import Lookup
from schemas.envelope import Decoder, split
from schemas.errors import BadMessage, RegistryError
from schemas.event_schemas import LEDGER, built_in
from wire.batch import read_header
from wire.errors import BatchError
from wire.records import records

GATHERED_BYTES: Final = 8 * 1024 * 1024
_FEW: Final = 16  # batches that are read one by one, if they cannot be read together
_MOST_PRODUCERS: Final = 1_000_000
_YOUNG_MILLIS: Final = 60_000

log = logging.getLogger(__name__)


class SchemaNotThere(RegistryError):
    """An entry that was just written has a schema that the registry does not know yet."""


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


class LedgerEntries:
    """`add` batches in the order of a partition, and take what they say, as columns of
    `LEDGER_TYPE`. One thread."""

    def __init__(self, lookup: Lookup, now_millis: Callable[[], int] = _now_millis) -> None:
        """`lookup` says which schema has an id, None if none has; what it raises passes through."""
        self.left_out = 0  # in all
        self._now_millis = now_millis
        self._lookup = lookup
        self._decoder = Decoder(lookup, built_in(LEDGER))
        self._columns: dict[int, ColumnsOfLedger | None] = {}  # by schema
        self._schema_of: dict[int, int] = {}  # by producer: what it wrote with last
        self._usual = -1
        self._gathered: list[PlainBatch] = []
        self._bytes = 0

    def add(self, batch: FetchedBatch) -> pa.StructArray | None:
        """What was gathered, once it is much."""
        header, data = batch.header, bytes(batch.data)
        self._gathered.append((header.producer_id, header.codec, header.record_count, data))
        self._bytes += len(data)
        return self.take() if self._bytes >= GATHERED_BYTES else None

    def add_all(self, plain: PlainBatches) -> pa.StructArray | None:
        """As `add` of each."""
        self._gathered += plain.batches
        self._bytes += plain.size
        return self.take() if self._bytes >= GATHERED_BYTES else None

    def forget(self) -> None:
        """What was added and not taken: it will come again."""
        self._gathered, self._bytes = [], 0

    def leave_out(self, entries: int, why: str) -> None:
        """They are not handed out. The first time this is said."""
        if entries and not self.left_out:
            log.warning("entries of the ledger are left out error=%r", why)
        self.left_out += entries

    def take(self) -> pa.StructArray:
        """All that was added since: each journal's entries in their order."""
        gathered, self._gathered, self._bytes = self._gathered, [], 0
        if self._usual < 0:
            self._usual = _schema_of_first(gathered)
        found: list[pa.StructArray] = []
        for schema_id, batches in self._by_schema(gathered).items():
            found += self._together(self._columns_of(schema_id), batches)
        bodies = [body for body in found if len(body)]
        return pa.concat_arrays(bodies) if len(bodies) > 1 else next(iter(bodies), no_entries())

    def _by_schema(self, batches: list[PlainBatch]) -> Mapping[int, list[PlainBatch]]:
        """As far as it can be guessed: a producer goes on with the schema that it had."""
        if not self._schema_of:
            return {self._usual: batches}
        found: defaultdict[int, list[PlainBatch]] = defaultdict(list)
        for batch in batches:
            found[self._schema_of.get(batch[0], self._usual)].append(batch)
        return found

    def _together(
        self, columns: ColumnsOfLedger | None, batches: Sequence[PlainBatch]
    ) -> list[pa.StructArray]:
        """If not all of them together, then what is good of them in halves."""
        if columns is None or len(batches) <= _FEW:
            return [columns_of([entry for batch in batches for entry in self._one_by_one(batch)])]
        try:
            return [columns.read(Frames.of(batches))]
        except NotTogether:
            half = len(batches) // 2
            first = self._together(columns, batches[:half])
            return first + self._together(columns, batches[half:])

    def _columns_of(self, schema_id: int) -> ColumnsOfLedger | None:
        if schema_id not in self._columns:
            schema = self._lookup(schema_id) if schema_id >= 0 else None
            if schema is None:
                return None
            self._columns[schema_id] = ColumnsOfLedger.of(schema, schema_id)
        return self._columns[schema_id]

    def _one_by_one(self, batch: PlainBatch) -> Iterator[Mapping[str, Any]]:
        producer, _, count, data = batch
        try:
            found = [record.value or b"" for record in records(data)]
        except BatchError as error:
            self.leave_out(count, str(error))
            return
        for value in found:
            try:
                entry = self._decoder.decode(value)
            except BadMessage as error:
                self._wait_for_schema(value, data)
                self.leave_out(1, str(error))
                continue
            if len(self._schema_of) >= _MOST_PRODUCERS:
                self._schema_of.clear()
            self._schema_of[producer] = split(value)[0]
            yield entry

    def _wait_for_schema(self, value: bytes, batch: bytes) -> None:
        """Raises SchemaNotThere if it may still come."""
        age = self._now_millis() - read_header(batch).max_timestamp
        if not 0 <= age < _YOUNG_MILLIS:
            return
        try:
            schema_id, _ = split(value)
        except BadMessage:
            return
        if self._lookup(schema_id) is None:
            raise SchemaNotThere(f"the registry does not know schema {schema_id} yet")


def _schema_of_first(batches: Iterable[PlainBatch]) -> int:
    """Of the first that has one; -1 if none has."""
    for *_, data in batches:
        try:
            return split(next(records(data)).value or b"")[0]
        except (BatchError, BadMessage, StopIteration):
            continue
    return -1
