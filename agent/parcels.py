"""What is handed from reading to shipping: finished batches, in parcels that are journalled whole.

The events of a stretch of a file may go to several partitions, and some of its lines to the topic
of dead letters. All batches that such a stretch is in make up one parcel, together with how far it
brings its sources: the journal takes over all of it, or nothing. It has a word of its own since
Kafka has none for it: a batch is one partition's, and brokers know of no transaction here.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto

import msgspec

from agent.alterations import AlteredText
from agent.runs import Progress, Run, SourceId, WindowCount
from client.delivery import Batch


class BatchKind(Enum):
    """What a batch carries."""

    EVENTS = auto()
    DEAD_LETTERS = auto()
    LEDGER = auto()


class Outgoing(msgspec.Struct, frozen=True, eq=False):
    """A finished batch, not yet numbered by a producer, and what is in it.

    `number` is its own within this agent's journal and ascends. The windows add up to the batch's
    records, and are `window_millis` long. `delays` are those of the ledger: how many events were
    how late when this was built. `covers` names the statements that a batch of the ledger makes.
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
    """A run of which nothing is shipped: everything was filtered, dead-lettered or lost."""

    number: int
    topic: str
    run: Run


class Parcel(msgspec.Struct, frozen=True, eq=False):
    """Batches that are journalled in one piece, in the order in which they are to be sent."""

    batches: Sequence[Outgoing]
    eventless: Sequence[Eventless]
    progress: Mapping[SourceId, Progress]
    altered: Sequence[AlteredText] = ()
