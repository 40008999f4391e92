"""The audit's database, written by one thread.

A chunk is folded in one transaction with the positions up to which the ledger was read: a kill at
any point leaves both or neither. The content can be read from `_audit` again, so SQLite's flushes
with `synchronous=NORMAL` are enough: after a power failure the last chunks are read again.

A chunk's ids are assigned first, then offsets are kept, as these tell what was counted already,
then all the rest.
"""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
import pyarrow as pa

from audit.api.answers import Mark
from audit.configuration.config import Inventory
from audit.errors import AuditStoreError, WrongSignature
from audit.reconciling.picture import TopicKey
from audit.store import expiry
from audit.store.database import FILE, closed, damage_said, moved_aside, open_for_writing
from audit.store.entries import disputes, examining, journals, reservations
from audit.store.entries.chunks import AllNumbers, Chunk
from audit.store.entries.deferred_signatures import MOST_CHUNKS, DeferredSignatures, at_once
from audit.store.entries.examining import ExaminedEntries, SigningPolicy
from audit.store.files import reshipments, shipped_stretches, sources
from audit.store.fleet import agents, heads, health, lags, marks
from audit.store.folding.columns import Entries, Numbers, numbers
from audit.store.folding.keyed_intervals import grouped
from audit.store.partitions import (
    agent_claims,
    collisions,
    commit_logs,
    comparisons,
    event_hours,
    exactness,
    generations,
    log_losses,
    offsets,
    origins,
)
from audit.store.reading import StoreReading
from audit.store.rows import Alert, JudgedHour, Touched
from audit.store.statements import altered_text, rare_statements
from audit.store.topics import sums
from ground.known_types import known_type
from ledger.names import VERSION
from ledger.reading import LedgerPositions

_ALERT = """
INSERT OR REPLACE INTO alerts
    (kind, cluster, topic, host, words, raised, resolved, hour, finding, since)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def _now_millis() -> int:
    return time.time_ns() // 1_000_000


class AuditStore(msgspec.Struct):
    """The database, open for writing. The directory's lock ensures that only one process writes at
    a time."""

    directory: Path
    window_millis: int
    retention_millis: int
    grace_millis: int
    _connection: sqlite3.Connection
    _numbers: AllNumbers
    _clock: Callable[[], int]
    policy: SigningPolicy = msgspec.field(default_factory=SigningPolicy)
    defers: bool = True
    """Whether signatures may be verified after several chunks were folded."""
    _deferred: DeferredSignatures = msgspec.field(default_factory=DeferredSignatures)

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        window_millis: int = 60_000,
        retention_millis: int = 7 * 86_400_000,
        grace_millis: int = 60_000,
        clock: Callable[[], int] = _now_millis,
    ) -> Self:
        """Opens the store. Raises StoreDamaged, AuditStoreError."""
        connection = open_for_writing(directory)
        numbers = AllNumbers(connection)
        return cls(
            directory, window_millis, retention_millis, grace_millis, connection, numbers, clock
        )

    @staticmethod
    def discard(directory: Path) -> Path | None:
        """Moves a damaged database aside, and returns its new path."""
        return moved_aside(directory)

    def close(self) -> None:
        """Chunks that were folded in the present transaction are read again if a signature is
        wrong, or they cannot be committed."""
        with contextlib.suppress(AuditStoreError):
            self.commit()
        self._connection.close()
        closed(self.directory)

    def reading(self) -> StoreReading:
        """Opens the database for reading by any number of threads. The caller closes it."""
        return StoreReading(self.directory / FILE, self.grace_millis)

    def positions(self, cluster: str) -> LedgerPositions:
        """Returns the positions up to which the cluster's ledger was folded; empty at first."""
        with damage_said(self.directory / FILE):
            rows = self._connection.execute(
                "SELECT positions FROM positions WHERE cluster = ? AND length(positions)",
                (cluster,),
            ).fetchall()
        return (
            msgspec.json.decode(rows[0][0], type=known_type(LedgerPositions))
            if rows
            else LedgerPositions()
        )

    def fold(
        self,
        cluster: str,
        body: pa.StructArray,
        positions: LedgerPositions,
        proofs: pa.StructArray | None = None,
        *,
        is_behind: bool = False,
    ) -> Touched:
        """Folds entries of one cluster's `_audit`, given as `LEDGER_TYPE`, with their proofs as
        `PROOF_TYPE`. Repetitions change nothing. If the ledger `is_behind`, more entries follow:
        several chunks are committed together, and their signatures verified then. Raises
        StoreDamaged, AuditStoreError; then nothing was folded, or with WrongSignature nothing since
        the last commit."""
        is_deferred = is_behind and self.defers
        ends = not is_deferred or self._deferred.chunks + 1 >= MOST_CHUNKS
        with self._transaction(joins=True, ends=ends) as connection:
            self._deferred.chunks += is_deferred
            touched_hours = Touched(set())
            if len(body):
                # Times after now, of hosts whose clocks are ahead, count as now.
                entries = Entries.of(body, self._clock())
                checks = self._deferred.of if self._deferred.chunks else at_once
                examined = examining.examine(
                    connection, cluster, entries, proofs, policy=self.policy, checks=checks
                )
                touched_hours = _folded(
                    connection, self._numbers, cluster, entries, examined, proofs=proofs
                )
            connection.execute(
                "INSERT INTO positions (cluster, positions, newest) VALUES (?, ?, 0)"
                " ON CONFLICT DO UPDATE SET positions = excluded.positions",
                (cluster, msgspec.json.encode(positions)),
            )
        return touched_hours

    def expire(self, now: int) -> int:
        """Deletes data older than the retention, and returns the number of deleted rows."""
        with self._transaction() as connection:
            count = expiry.expire(connection, now, self.retention_millis)
        self._numbers.forget()
        with damage_said(self.directory / FILE):
            self._connection.execute("PRAGMA incremental_vacuum(10000)").fetchall()
        return count

    def set_inventory(self, hosts: Sequence[Inventory], now: int) -> None:
        """Replaces the hosts that are expected to ship. New hosts are expected from now on."""
        expected_pairs = [(host.host, topic) for host in hosts for topic in host.topics or ("",)]
        with self._transaction() as connection:
            query = "SELECT host, topic, since FROM inventory"
            since_by_pair = {
                (host, topic): since for host, topic, since in connection.execute(query)
            }
            connection.execute("DELETE FROM inventory")
            connection.executemany(
                "INSERT OR IGNORE INTO inventory VALUES (?, ?, ?)",
                [(*pair, since_by_pair.get(pair, now)) for pair in expected_pairs],
            )

    def judged(self, hours: Sequence[JudgedHour]) -> None:
        """Replaces the verdicts about these hours."""
        numbers = self._numbers
        with self._transaction() as connection:
            rows = []
            for (cluster, topic, topic_id), *values, accepted_kinds, kinds, dead in hours:
                (name,) = numbers.topic_names.of([topic], cluster)
                packed_kinds = (
                    msgspec.json.encode(kind_counts).decode()
                    for kind_counts in (accepted_kinds, kinds)
                )
                (number,) = numbers.topics.of([topic_id], name)
                rows.append((number, *values, *packed_kinds, dead.lines, dead.events))
            connection.executemany(
                "INSERT OR REPLACE INTO judged VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
            )

    def keep_measured(
        self,
        time: int,
        measured: Sequence[tuple[str, str]],
        lags_: Sequence[lags.MeasuredLag],
        marks_: Sequence[Mark],
    ) -> None:
        """Stores the lags measured at a time for these kinds and clusters, and new marks."""
        with self._transaction(joins=True, ends=not self._deferred.chunks) as connection:
            lags.keep(connection, self._numbers.lag_series, time, measured, lags_)
            marks.keep_seen(connection, marks_)

    def keep_alerts(self, alerts: Sequence[Alert]) -> None:
        """Stores new and changed alerts, identified by kind, cluster, topic, host, hour and the
        time when they were raised."""
        with self._transaction() as connection:
            connection.executemany(_ALERT, alerts)

    @contextlib.contextmanager
    def _transaction(
        self, *, joins: bool = False, ends: bool = True
    ) -> Iterator[sqlite3.Connection]:
        """Everything in it is stored, or nothing. With `joins`, it may be part of a transaction
        that several chunks have begun; only one that `ends` is committed."""
        connection = self._connection
        with damage_said(self.directory / FILE):
            if not joins:
                self.commit()
            former_signatures = self._deferred.copied()
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            connection.execute("SAVEPOINT part")
            try:
                yield connection
                connection.execute("RELEASE part")
            except BaseException:
                self._numbers.forget()
                self._deferred = former_signatures
                if connection.in_transaction:
                    connection.execute("ROLLBACK TO part")
                    connection.execute("RELEASE part")
                    if not self._deferred.chunks:
                        connection.execute("ROLLBACK")
                raise
            if ends:
                self.commit()

    def commit(self) -> None:
        """Commits the present transaction, if there is any, once its signatures are verified: only
        then does `reading` see it. Raises WrongSignature, StoreDamaged, AuditStoreError; then
        nothing of it is stored."""
        connection = self._connection
        if not connection.in_transaction:
            return
        with damage_said(self.directory / FILE):
            try:
                if not self._deferred.hold():
                    raise WrongSignature("a signature of an entry is wrong")
                connection.execute("COMMIT")
            except BaseException:
                self._numbers.forget()
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._deferred.clear()


def _folded(
    connection: sqlite3.Connection,
    numbers_: AllNumbers,
    cluster: str,
    entries: Entries,
    examined: ExaminedEntries,
    *,
    proofs: pa.StructArray | None,
) -> Touched:
    hours = examined.hours
    if examined.rejected:
        entries = entries.only(examined.believed)
        proofs = None if proofs is None else proofs.filter(pa.array(examined.believed))
    if not len(entries):
        return Touched(_named(connection, hours), 0, 0, examined.rejected)
    displacing = examined.displacing[examined.believed]
    seen_entries = journals.take(connection, numbers_, cluster, entries)
    if proofs is not None:
        heads.keep(connection, cluster, entries, seen_entries.journal, proofs)
    doubt = disputes.check(connection, cluster, entries, seen_entries, displacing)
    is_new = seen_entries.new | displacing
    is_understood = numbers(entries.body.field("version")) <= VERSION
    is_understood &= ~entries.of_tier("unknown")
    has_name = np.array([bool(text) for text in entries.journal.values])[entries.journal.codes]
    left_out_entries = int((~has_name | (is_new & (~is_understood | doubt.entries))).sum())
    is_folded = is_new & is_understood & ~doubt.entries
    repeated_entries = len(entries) - left_out_entries - int(is_folded.sum())
    left_out_entries += examined.rejected
    hours |= doubt.hours
    if not is_folded.any():
        return Touched(_named(connection, hours), 0, repeated_entries, left_out_entries)
    journal = seen_entries.journal
    if not is_folded.all():
        entries, journal = entries.only(is_folded), journal[is_folded]
    chunk = Chunk.of(connection, numbers_, cluster, entries, journal)
    newest_time = _newest(connection, cluster, entries)
    _fold(chunk, newest_time)
    shipped_stretches.drop(connection, cluster, newest_time)
    named_hours = _named(connection, chunk.touched | hours)
    return Touched(named_hours, len(entries), repeated_entries, left_out_entries)


def _fold(chunk: Chunk, newest: int) -> None:
    agents.keep(chunk)
    health.keep(chunk)
    log_losses.keep(chunk)
    marks.keep_starts(chunk)
    places = offsets.PassagePlaces.of(chunk)
    if len(chunk.passages):
        origins.keep(chunk)
        generations.keep(chunk, places.first, places.next_offset, places.count)
        claim_result = offsets.claim(chunk, places)
        origins.keep_marked(
            chunk, claim_result.counted | claim_result.partly, places.first, places.count
        )
        offsets.keep_spans(chunk, places, claim_result, newest)
        event_hours.keep(chunk, places)
        agent_claims.keep(chunk, places)
        comparisons.keep(chunk)
        sums.add(chunk, claim_result.counted)
        sums.keep_uncounted(chunk, claim_result.partly)
        exactness.keep(chunk, places, claim_result.counted, claim_result.over)
        commit_logs.keep(chunk)
        _keep_writers(chunk)
        reservations.keep(chunk)
    for name in rare_statements.keep_retired(chunk):
        commit_logs.retire(chunk, name)
    source = sources.keep(chunk, places)
    if len(chunk.passages):
        shipped_stretches.keep(chunk, places, source)
    reshipments.keep(chunk, source)
    rare_statements.keep(chunk)
    comparisons.keep_compared(chunk)
    altered_text.keep(chunk)
    collisions.keep(chunk)
    shipped_stretches.look_again(chunk)
    origins.touch_copies(chunk)


def _keep_writers(chunk: Chunk) -> None:
    """Keeps which journals report which topics: their missing entries affect these."""
    topic_names = chunk.numbers.topic_names
    codes = np.array(topic_names.of(chunk.passages.topic.values, chunk.cluster), np.int64)
    journal: Numbers = chunk.journal[chunk.passages.entry]
    pairs = grouped(codes[chunk.passages.topic.codes], journal).keys
    is_new = chunk.numbers.journal_topics.added(*pairs)
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO journal_topics VALUES (?, ?)",
        zip(*(column[is_new].tolist() for column in pairs), strict=True),
    )


def _newest(connection: sqlite3.Connection, cluster: str, entries: Entries) -> int:
    """Returns the time that the cluster's ledger has reached, by the median entry of a chunk, since
    most clocks are right."""
    middle = (len(entries) - 1) // 2
    connection.execute(
        "INSERT INTO positions (cluster, positions, newest) VALUES (?, x'', ?)"
        " ON CONFLICT DO UPDATE SET newest = max(newest, excluded.newest)",
        (cluster, int(np.partition(entries.time, middle)[middle])),
    )
    ((newest_time,),) = connection.execute(
        "SELECT newest FROM positions WHERE cluster = ?", (cluster,)
    ).fetchall()
    return int(newest_time)


def _named(
    connection: sqlite3.Connection, touched: set[tuple[int, int]]
) -> set[tuple[TopicKey, int]]:
    topics = {topic for topic, _ in touched}
    keys = {
        topic: TopicKey(*values)
        for topic, *values in connection.execute(
            "SELECT topics.id, cluster, topic, topic_id FROM topics JOIN topic_names"
            " ON topic_names.id = name WHERE topics.id IN (SELECT value FROM json_each(?))"
            " AND topic NOT LIKE '\\_%' ESCAPE '\\'",
            (str(sorted(topics)),),
        )
    }
    return {(keys[topic], hour) for topic, hour in touched if topic in keys}
