"""Folds entries of `_audit` into a database without a broker: by Penstock, and row by row.

Both receive record batches as a fetch returns them, and write to the disk. "Row by row" stands for
a plain program: fastavro decodes each value, and each row is an `INSERT` into SQLite, with prepared
statements, WAL, and one transaction per call. It keeps the minimum for a verdict on healthy hours
(sums by window, offsets, runs, heartbeats): no merged intervals, names of lost events, histograms.
"""

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
import msgspec

from audit.store.store import AuditStore
from bench.figures.profile import CaseContext, ServerKind
from bench.servers.brokers import PENSTOCK
from client.reading.fetcher import FetchedBatch
from harness.processes.server_process import ServerFailed
from ledger.entries import LedgerEntries, LedgerRows
from ledger.reading import CHUNK_BYTES, LedgerPositions
from schemas.bodies.fastavro_schema import FIELD, fastavro_schema
from schemas.envelope import PREFIX_SIZE
from schemas.event_schemas import LEDGER, built_in
from wire.record_batches.batch import read_header
from wire.record_batches.records import records

ROW_BY_ROW: Final = "row by row"
SCHEMA_ID: Final = 1

_CLUSTER: Final = "local"


class Folded(msgspec.Struct):
    """The cost of folding. Seconds include decoding; `in_store` is the store's part of them."""

    entries: int = 0
    seconds: float = 0.0
    in_store: float = 0.0


class Folder(msgspec.Struct):
    """Folds entries into a new database each time, either by Penstock or row by row."""

    name: str
    home: Path
    folds: int = 0

    def last_words(self, _: int) -> str:
        return ""

    def fold(self, minutes: Iterable[Sequence[bytes]]) -> Folded:
        """Folds the entries. Raises ServerFailed if an entry was not new."""
        self.folds += 1
        directory = self.home / f"fold-{self.folds}"
        try:
            return (_rows if self.name == ROW_BY_ROW else _columns)(directory, minutes)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def folder_of(context: CaseContext) -> Folder:
    assert isinstance(context.server, Folder)
    return context.server


def folders(*, beside: bool) -> Mapping[str, ServerKind]:
    """Returns the folding implementations to measure, by name; `beside` adds the row-by-row one."""
    names = [PENSTOCK, ROW_BY_ROW] if beside else [PENSTOCK]
    return {name: _kind(name) for name in names}


def _kind(name: str) -> ServerKind:
    return lambda home: contextlib.nullcontext(Folder(name, home))


def _columns(directory: Path, minutes: Iterable[Sequence[bytes]]) -> Folded:
    result = Folded()
    entries = LedgerEntries({SCHEMA_ID: built_in(LEDGER)}.get)
    parts: list[LedgerRows] = []
    with contextlib.closing(AuditStore.open(directory)) as store:
        for batches in _fetched(minutes):
            start_time = time.perf_counter()
            parts += [rows for rows in map(entries.add, batches) if rows is not None]
            if sum(rows.nbytes for rows in parts) >= CHUNK_BYTES:
                _fold(store, parts, result, is_behind=True)
            result.seconds += time.perf_counter() - start_time
        start_time = time.perf_counter()
        parts.append(entries.take())
        _fold(store, parts, result, is_behind=False)
        result.seconds += time.perf_counter() - start_time
    if entries.left_out:
        raise ServerFailed(f"{entries.left_out} entries were left out")
    return result


def _fold(store: AuditStore, parts: list[LedgerRows], result: Folded, *, is_behind: bool) -> None:
    rows = LedgerRows.joined(parts)
    parts.clear()
    start_time = time.perf_counter()
    fold_result = store.fold(
        *(_CLUSTER, rows.body, LedgerPositions(), rows.proofs), is_behind=is_behind
    )
    result.in_store += time.perf_counter() - start_time
    if fold_result.entries != len(rows):
        raise ServerFailed(f"{fold_result.entries} of {len(rows)} entries were new")
    result.entries += fold_result.entries


def _fetched(minutes: Iterable[Sequence[bytes]]) -> Iterator[list[FetchedBatch]]:
    for batches in minutes:
        yield [FetchedBatch(0, read_header(data), memoryview(data)) for data in batches]


def _rows(directory: Path, minutes: Iterable[Sequence[bytes]]) -> Folded:
    result = Folded()
    with contextlib.closing(RowByRow(directory)) as database:
        for batches in minutes:
            start_time = time.perf_counter()
            new_entries = database.fold(batches)
            result.seconds += time.perf_counter() - start_time
            if new_entries != len(batches):
                raise ServerFailed(f"{new_entries} of {len(batches)} entries were new")
            result.entries += new_entries
    return result


_TABLES: Final = """
CREATE TABLE entries (journal TEXT, seq INT, time INT, PRIMARY KEY (journal, seq)) WITHOUT ROWID;
CREATE TABLE sums (topic TEXT, start INT, tier TEXT, events INT, bytes INT, crc_sum INT,
    PRIMARY KEY (topic, start, tier)) WITHOUT ROWID;
CREATE TABLE claimed (topic TEXT, partition INT, tier TEXT, first INT, count INT);
CREATE TABLE runs (source TEXT, topic TEXT, tier TEXT, path TEXT, seq INT, events INT,
    position INT, end_position INT);
CREATE TABLE agents (journal TEXT PRIMARY KEY, host TEXT, heard INT, until INT) WITHOUT ROWID;
"""
_SUM: Final = """
INSERT INTO sums VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    events = events + excluded.events, bytes = bytes + excluded.bytes,
    crc_sum = crc_sum + excluded.crc_sum
"""
_AGENT: Final = """
INSERT INTO agents VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    heard = max(heard, excluded.heard), until = max(until, excluded.until)
"""


class RowByRow:
    """Folds row by row into one database."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._connection = sqlite3.connect(directory / "rows.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_TABLES)
        self._schema: Any = fastavro_schema(built_in(LEDGER))

    def close(self) -> None:
        self._connection.close()

    def fold(self, batches: Iterable[bytes]) -> int:
        """Folds the entries; returns the number of new ones."""
        self._connection.execute("BEGIN IMMEDIATE")
        new_entries = 0
        for data in batches:
            for record in records(data):
                body = BytesIO(record.value or b"")
                body.seek(PREFIX_SIZE)
                event: Any = fastavro.schemaless_reader(body, self._schema, None)
                new_entries += self._fold(event[FIELD])
        self._connection.execute("COMMIT")
        return new_entries

    def _fold(self, entry: Mapping[str, Any]) -> bool:
        execute = self._connection.execute
        header, tier = entry["header"], entry["tier"]
        journal, time = header["source"], header["time"]
        cursor = execute(
            "INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", (journal, header["seq"], time)
        )
        if not cursor.rowcount:
            return False
        for passage in entry["passages"]:
            self._passage(passage, tier)
        for beat in entry["heartbeats"]:
            execute(_AGENT, (journal, header["host"], time, beat["until"]))
        return True

    def _passage(self, passage: Mapping[str, Any], tier: str) -> None:
        execute, topic = self._connection.execute, passage["topic"]
        for item in passage["windows"]:
            sums = item["events"], item["bytes"], item["crc_sum"]
            execute(_SUM, (topic, item["start"], tier, *sums))
        for item in passage["offsets"]:
            interval = passage["partition"], tier, item["first"], item["count"]
            execute("INSERT INTO claimed VALUES (?, ?, ?, ?, ?)", (topic, *interval))
        for item in passage["runs"]:
            key = item["path"], item["seq"], item["events"]
            positions = item["position"], item["end_position"]
            execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (item["source"], topic, tier, *key, *positions),
            )
