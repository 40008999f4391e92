"""What an audit says of entries, folded in any order and in any chunks, once they are all there."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from audit.picture import TopicKey, TopicPicture
from audit.reconciling.verdict import reconcile
from audit.store.store import AuditStore
from audit.verdicts import TopicVerdict
from ledger.reading import LedgerPositions
from tests.audit.store.said import BEGIN, CLUSTER, HOUR, TOPIC, TOPIC_ID, Json, body

KEY: Final = TopicKey(CLUSTER, TOPIC, TOPIC_ID)
FIRST: Final = BEGIN // HOUR * HOUR
NOW: Final = FIRST + 5 * HOUR


def pictured(
    directory: Path, chunks: Sequence[Sequence[Json]], hours: tuple[int, int] = (0, 3)
) -> TopicPicture:
    """Of these hours, some time later."""
    with closing(AuditStore.open(directory)) as store, closing(store.reading()) as reading:
        for each in chunks:
            store.fold(CLUSTER, body(each), LedgerPositions())
        between = (FIRST + hours[0] * HOUR, FIRST + hours[1] * HOUR)
        return reading.picture(KEY, *between, NOW, expected_millis=30 * 24 * HOUR)


def judged(
    directory: Path, chunks: Sequence[Sequence[Json]], hours: tuple[int, int] = (0, 3)
) -> TopicVerdict:
    return reconcile(pictured(directory, chunks, hours))
