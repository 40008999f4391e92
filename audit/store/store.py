"""The audit's database, written by one thread.

All of a chunk is folded in one transaction with the positions up to which the ledger was read: a
kill at any point leaves either both or neither. Whatever is in it can be read from `_audit` again,
so nothing is flushed more than SQLite does with `synchronous=NORMAL`: after a power failure the
last chunks are read again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pyarrow as pa

from audit.config import Inventory
from audit.store.reading import Reading
from audit.store.rows import Alert, JudgedHour, Touched
from ledger.reading import LedgerPositions


class Store:
    """Open in one process only, which the service's lock of the directory sees to."""

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        window_millis: int = 60_000,
        retention_millis: int = 7 * 86_400_000,
        grace_millis: int = 60_000,
    ) -> Self:
        """Raises StoreDamaged, StoreError."""
        raise NotImplementedError

    @staticmethod
    def discard(directory: Path) -> Path | None:
        """Moves a damaged database aside, and says where it is now."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def reading(self) -> Reading:
        """May be used by any threads at once. To be closed by whoever asked for it."""
        raise NotImplementedError

    def positions(self, cluster: str) -> LedgerPositions:
        """Up to where the cluster's ledger was folded; empty if it never was."""
        raise NotImplementedError

    def fold(self, cluster: str, body: pa.StructArray, positions: LedgerPositions) -> Touched:
        """Entries of one cluster's `_audit` as `LEDGER_TYPE`. The same again changes nothing."""
        raise NotImplementedError

    def expire(self, now: int) -> int:
        """What is older than is kept goes. Returns how many rows that were."""
        raise NotImplementedError

    def set_inventory(self, hosts: Sequence[Inventory]) -> None:
        """Who is expected to ship, in place of those who were before."""
        raise NotImplementedError

    def judged(self, hours: Sequence[JudgedHour]) -> None:
        """What was said of these hours, in place of what was said before."""
        raise NotImplementedError

    def keep_alerts(self, alerts: Sequence[Alert]) -> None:
        """New ones, and known ones that have changed: kind, cluster, topic, host and when it was
        raised say which one it is."""
        raise NotImplementedError
