"""An audit's store with entries of one cluster folded into it, and what it knows of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from audit.reconciling.picture import TopicKey, TopicPicture
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.verdict import reconcile
from audit.store.rows import Touched
from audit.store.store import AuditStore
from ledger.reading import LedgerPositions
from tests.audit.store.said import BEGIN, CLUSTER, HOUR, TOPIC, TOPIC_ID, Json, body

KEY: Final = TopicKey(CLUSTER, TOPIC, TOPIC_ID)
FIRST: Final = BEGIN  # an hour begins there
NOW: Final = FIRST + 5 * HOUR
DAY: Final = 24 * HOUR


class AuditedLedger:
    """`with AuditedLedger(directory, clock=NOW) as ledger`; without `clock`, today's."""

    def __init__(self, directory: Path, *, clock: int | None = None, **options: Any) -> None:
        if clock is not None:
            options["clock"] = lambda: clock
        self.store = AuditStore.open(directory, **options)
        self.reading = self.store.reading()

    def fold(self, *entries: Json) -> Touched:
        """All of them at once."""
        return self.store.fold(CLUSTER, body(entries), LedgerPositions())

    def fold_each(self, entries: Sequence[Json]) -> Self:
        """One by one."""
        for each in entries:
            self.fold(each)
        return self

    def picture(
        self,
        begin: int = FIRST,
        end: int = FIRST + HOUR,
        now: int = FIRST + 2 * HOUR,
        *,
        key: TopicKey = KEY,
        expected: int = 30 * DAY,
    ) -> TopicPicture:
        return self.reading.picture(key, begin, end, now, expected_millis=expected)

    def close(self) -> None:
        self.reading.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pictured(
    directory: Path, chunks: Sequence[Sequence[Json]], hours: tuple[int, int] = (0, 3)
) -> TopicPicture:
    """Of these hours, some time later."""
    with AuditedLedger(directory) as ledger:
        for each in chunks:
            ledger.fold(*each)
        return ledger.picture(FIRST + hours[0] * HOUR, FIRST + hours[1] * HOUR, NOW)


def judged(
    directory: Path, chunks: Sequence[Sequence[Json]], hours: tuple[int, int] = (0, 3)
) -> TopicVerdict:
    return reconcile(pictured(directory, chunks, hours))
