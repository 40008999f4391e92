"""Parcels: finished batches that are journalled together, and passed from reading to shipping.

The events of a stretch of a file may go to several partitions, and some of its lines to the
dead-letter topic. All its batches form one parcel, together with the new positions of its sources,
which is journalled as a whole or not at all. Kafka has no word for this: a batch belongs to one
partition, and no transaction of a broker is involved.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto

import msgspec

from agent.accounting.alterations import AlteredText
from agent.accounting.runs import Progress, Run, SourceId, WindowCount
from client.producing.delivery import Batch


class BatchKind(Enum):
    EVENTS = auto()
    DEAD_LETTERS = auto()
    LEDGER = auto()


class Outgoing(msgspec.Struct, frozen=True, eq=False):
    """A finished batch that no producer has numbered yet, and the account of its content.

    `number` is unique and ascending within the agent's journal. The windows add up to the batch's
    records, and are `window_millis` long. `delays` counts events by their delay when the batch was
    built, as in the ledger. `covers` are the statements in a batch of the ledger.
    """

    number: int
    kind: BatchKind
    batch: Batch
    runs: tuple[Run, ...] = ()
    windows: tuple[WindowCount, ...] = ()
    delays: tuple[int, ...] = ()
    covers: tuple[int, ...] = ()
    window_millis: int = 60_000


class Eventless(msgspec.Struct, frozen=True, eq=False):
    """A run without a batch, because its lines were filtered, dead-lettered or lost."""

    number: int
    topic: str
    run: Run


class Parcel(msgspec.Struct, frozen=True, eq=False):
    """Batches that are journalled together, in the order in which they are sent."""

    batches: Sequence[Outgoing]
    eventless: Sequence[Eventless]
    progress: Mapping[SourceId, Progress]
    altered: Sequence[AlteredText] = ()
