"""Entries of `_audit` on their way into a database, without the broker: Penstock's, and row by row.

Both are given record batches as a fetch hands them out, and keep what these say on the disk.
"""

import contextlib
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from audit.store.store import AuditStore
from bench.brokers import PENSTOCK
from bench.profile import Place, ServerKind
from bench.row_by_row import RowByRow
from client.fetcher import FetchedBatch
from harness.server_process import ServerFailed
from ledger.entries import LedgerEntries
from ledger.reading import CHUNK_BYTES, LedgerPositions
from schemas.event_schemas import LEDGER, built_in
from wire.batch import read_header

ROW_BY_ROW: Final = "row by row"
SCHEMA_ID: Final = 1

_CLUSTER: Final = "local"


@dataclass(slots=True)
class Folded:
    """Of the seconds, how many went into the store; the rest was decoding."""

    entries: int = 0
    seconds: float = 0.0
    in_store: float = 0.0


@dataclass(slots=True)
class Folder:
    """A way to fold; each time into a database that was not there before."""

    name: str
    home: Path
    folds: int = 0

    def last_words(self, _: int) -> str:
        return ""

    def fold(self, minutes: Iterable[Sequence[bytes]]) -> Folded:
        """ServerFailed if not all of it was new."""
        self.folds += 1
        directory = self.home / f"fold-{self.folds}"
        try:
            return (_rows if self.name == ROW_BY_ROW else _columns)(directory, minutes)
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def folder_of(place: Place) -> Folder:
    assert isinstance(place.server, Folder)
    return place.server


def folders(*, beside: bool) -> Mapping[str, ServerKind]:
    """By their names; row by row if it is wanted."""
    names = [PENSTOCK, ROW_BY_ROW] if beside else [PENSTOCK]
    return {name: _kind(name) for name in names}


def _kind(name: str) -> ServerKind:
    return lambda home: contextlib.nullcontext(Folder(name, home))


def _columns(directory: Path, minutes: Iterable[Sequence[bytes]]) -> Folded:
    folded = Folded()
    entries = LedgerEntries({SCHEMA_ID: built_in(LEDGER)}.get)
    waiting: list[pa.StructArray] = []
    with contextlib.closing(AuditStore.open(directory)) as store:
        for batches in _fetched(minutes):
            began = time.perf_counter()
            read = map(entries.add, batches)
            waiting += [body for body in read if body is not None]
            if sum(each.nbytes for each in waiting) >= CHUNK_BYTES:
                _fold(store, waiting, folded)
            folded.seconds += time.perf_counter() - began
        began = time.perf_counter()
        waiting.append(entries.take())
        _fold(store, waiting, folded)
        folded.seconds += time.perf_counter() - began
    if entries.left_out:
        raise ServerFailed(f"{entries.left_out} entries were left out")
    return folded


def _fold(store: AuditStore, waiting: list[pa.StructArray], folded: Folded) -> None:
    body = pa.concat_arrays(waiting)
    waiting.clear()
    began = time.perf_counter()
    touched = store.fold(_CLUSTER, body, LedgerPositions())
    folded.in_store += time.perf_counter() - began
    if touched.entries != len(body):
        raise ServerFailed(f"{touched.entries} of {len(body)} entries were new")
    folded.entries += touched.entries


def _fetched(minutes: Iterable[Sequence[bytes]]) -> Iterator[list[FetchedBatch]]:
    for batches in minutes:
        yield [FetchedBatch(0, read_header(data), memoryview(data)) for data in batches]


def _rows(directory: Path, minutes: Iterable[Sequence[bytes]]) -> Folded:
    folded = Folded()
    with contextlib.closing(RowByRow(directory)) as database:
        for batches in minutes:
            began = time.perf_counter()
            new = database.fold(batches)
            folded.seconds += time.perf_counter() - began
            if new != len(batches):
                raise ServerFailed(f"{new} of {len(batches)} entries were new")
            folded.entries += new
    return folded
