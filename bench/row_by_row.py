"""The ledger folded as a plain program would: an entry after the other, a row after the other.

fastavro decodes a value, and each of its statements is an `INSERT` into SQLite with what is good
for speed there: a transaction for all that is handed over, prepared statements, WAL. It keeps what
a verdict over healthy hours needs (sums by window, offsets, runs, heartbeats) and not more: no
intervals that are united, no stretches by name, no histograms.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro

from schemas.bodies.fastavro_schema import FIELD, fastavro_schema
from schemas.envelope import PREFIX_SIZE
from schemas.event_schemas import LEDGER, built_in
from wire.records import records

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
    """One database."""

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
        """How many entries were new."""
        self._connection.execute("BEGIN IMMEDIATE")
        new = 0
        for data in batches:
            for record in records(data):
                body = BytesIO(record.value or b"")
                body.seek(PREFIX_SIZE)
                read: Any = fastavro.schemaless_reader(body, self._schema, None)
                new += self._fold(read[FIELD])
        self._connection.execute("COMMIT")
        return new

    def _fold(self, entry: Mapping[str, Any]) -> bool:
        insert = self._connection.execute
        header, tier = entry["header"], entry["tier"]
        journal, time = header["source"], header["time"]
        told = insert(
            "INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", (journal, header["seq"], time)
        )
        if not told.rowcount:
            return False
        for passage in entry["passages"]:
            self._passage(passage, tier)
        for beat in entry["heartbeats"]:
            insert(_AGENT, (journal, header["host"], time, beat["until"]))
        return True

    def _passage(self, passage: Mapping[str, Any], tier: str) -> None:
        insert, topic = self._connection.execute, passage["topic"]
        for each in passage["windows"]:
            counted = each["events"], each["bytes"], each["crc_sum"]
            insert(_SUM, (topic, each["start"], tier, *counted))
        for each in passage["offsets"]:
            stretch = passage["partition"], tier, each["first"], each["count"]
            insert("INSERT INTO claimed VALUES (?, ?, ?, ?, ?)", (topic, *stretch))
        for each in passage["runs"]:
            place = each["path"], each["seq"], each["events"]
            bounds = each["position"], each["end_position"]
            insert(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (each["source"], topic, tier, *place, *bounds),
            )
