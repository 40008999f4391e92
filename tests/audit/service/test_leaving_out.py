"""One entry that cannot be folded, among others that can."""

import contextlib
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest

from audit.errors import AuditStoreError, TooLargeToStore
from audit.service.writer import folded
from audit.store.database import damage_said
from audit.store.rows import Touched
from audit.store.store import AuditStore
from ledger.reading import LedgerChunk, LedgerPositions
from tests.audit.audited_ledger import AuditedLedger
from tests.audit.store.said import BEGIN, CLUSTER, body, entry, passage, window

BEHIND = LedgerPositions("cluster", "topic", {0: 100})


class Choosy:
    """A store that does not take some entries, by their seqs."""

    def __init__(self, store: AuditStore, refused: set[int], error: Exception) -> None:
        self._store = store
        self._refused = refused
        self._error = error

    def positions(self, cluster: str) -> LedgerPositions:
        return self._store.positions(cluster)

    def fold(
        self,
        cluster: str,
        body: pa.StructArray,
        positions: LedgerPositions,
        proofs: pa.StructArray | None = None,
        *,
        is_behind: bool = False,
    ) -> Touched:
        if self._refused.intersection(body.field("header").field("seq").to_pylist()):
            raise self._error
        return self._store.fold(cluster, body, positions, proofs, is_behind=is_behind)


def chunk(entries: int) -> LedgerChunk:
    said = [
        entry("agent", "a", at, BEGIN, passages=[passage(0, at, 1, [window(BEGIN, 1)])])
        for at in range(entries)
    ]
    return LedgerChunk(body(said), BEHIND)


@pytest.mark.parametrize("error", [OverflowError("too large"), TooLargeToStore("too big")])
@pytest.mark.parametrize("refused", [{0}, {6}, {2, 3}, set(range(7))])
def test_all_but_what_cannot_be_folded(
    ledger: AuditedLedger, refused: set[int], error: Exception
) -> None:
    touched = folded(Choosy(ledger.store, refused, error), CLUSTER, chunk(7))
    assert (touched.entries, touched.left_out) == (7 - len(refused), len(refused))
    assert ledger.store.positions(CLUSTER) == BEHIND
    again = ledger.store.fold(CLUSTER, chunk(7).body, BEHIND)
    assert again.entries == len(refused), "all others are there"


def test_what_the_database_cannot_do_is_no_fault_of_an_entry(ledger: AuditedLedger) -> None:
    full = AuditStoreError("the disk is full")
    with pytest.raises(AuditStoreError, match="full"):
        folded(Choosy(ledger.store, {3}, full), CLUSTER, chunk(7))
    assert ledger.store.positions(CLUSTER) == LedgerPositions()


def test_something_too_big_for_a_row_is_told_from_a_full_disk(tmp_path: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(TooLargeToStore),
        damage_said(tmp_path),
    ):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100)
        connection.execute("SELECT ?", ("x" * 1000,))
