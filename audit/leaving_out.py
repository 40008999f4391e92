"""A chunk that cannot be folded, folded without what it is about.

One entry that nobody foresaw must not keep an audit from all the others, nor come back with each
start. So such a chunk is folded in halves, and these again, down to the single entry that fails:
it is left out, counted and said. Only then the positions behind the chunk are kept. A kill before
that repeats all of it, which changes nothing.

What is wrong with the database itself (a full disk, damage) is none of this, and is raised.
"""

import logging
from typing import Final, Protocol

import pyarrow as pa

from audit.store.errors import StoreError, TooMuch
from audit.store.rows import Touched
from ledger.reading import Chunk, LedgerPositions

_MOST_NAMED: Final = 10  # entries of a chunk, in the log

log = logging.getLogger(__name__)


class Folds(Protocol):
    """As a Store does."""

    def positions(self, cluster: str) -> LedgerPositions: ...

    def fold(self, cluster: str, body: pa.StructArray, positions: LedgerPositions) -> Touched: ...


def folded(store: Folds, cluster: str, chunk: Chunk) -> Touched:
    """As much of it as can be. Raises StoreError; then some of it may have been folded, and is
    going to be read again."""
    try:
        return store.fold(cluster, chunk.body, chunk.positions)
    except Exception as error:
        if not _is_of_entries(error):
            raise
        log.exception("chunk cannot be folded, in pieces now cluster=%s", cluster)
    pieces = _Pieces(store, cluster)
    touched = pieces.fold(chunk.body) if len(chunk.body) else Touched(set())
    store.fold(cluster, _part(chunk.body, 0, 0), chunk.positions)
    log.error("entries that cannot be folded cluster=%s entries=%d", cluster, pieces.left_out)
    return touched._replace(left_out=touched.left_out + pieces.left_out)


class _Pieces:
    """Folded without going on from the positions that were kept before."""

    def __init__(self, store: Folds, cluster: str) -> None:
        self._store = store
        self._cluster = cluster
        self._at = store.positions(cluster)
        self.left_out = 0

    def fold(self, body: pa.StructArray) -> Touched:
        half = len(body) // 2
        if not half:
            return self._one(body)
        parts = (_part(body, 0, half), _part(body, half, len(body)))
        one, other = (self._whole(each) or self.fold(each) for each in parts)
        return Touched(
            one.hours | other.hours,
            one.entries + other.entries,
            one.repeated + other.repeated,
            one.left_out + other.left_out,
        )

    def _whole(self, body: pa.StructArray) -> Touched | None:
        """None if something of it cannot be folded."""
        try:
            return self._store.fold(self._cluster, body, self._at)
        except Exception as error:
            if not _is_of_entries(error):
                raise
            return None

    def _one(self, entry: pa.StructArray) -> Touched:
        if (touched := self._whole(entry)) is not None:
            return touched
        self.left_out += 1
        if self.left_out <= _MOST_NAMED:
            header = entry.field("header")
            log.error(
                "entry left out cluster=%s journal=%.200r seq=%d",
                self._cluster,
                header.field("source")[0].as_py(),
                header.field("seq")[0].as_py(),
            )
        return Touched(set())


def _is_of_entries(error: Exception) -> bool:
    """Whether others may well be folded; whatever it is, if it is not the database itself."""
    return isinstance(error, TooMuch) or not isinstance(error, StoreError)


def _part(body: pa.StructArray, first: int, end: int) -> pa.StructArray:
    """A copy, whose lists begin at their beginning."""
    return body.take(pa.array(range(first, end), pa.int64()))
