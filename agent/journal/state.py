"""The values of a journal: open batches, statements for the ledger, and the complete state.

A statement is a fact that the ledger does not have yet: a batch was acknowledged, lines were read
that did not become events, a file ended. It stays until a batch of the ledger that covers it is
acknowledged.
"""

from collections.abc import Mapping

import msgspec

from agent.accounting.alterations import AlteredText
from agent.accounting.parcels import Eventless, Outgoing
from agent.accounting.runs import KnownSource, Run, SourceId
from agent.history.blind_times import Looked, Unwatched
from agent.history.position import HistoryPosition
from client.producing.delivery import TopicPartition
from client.producing.identity import Identity
from ledger.proofs import NO_HEAD


class Numbers(msgspec.Struct, frozen=True):
    """The numbers under which a batch was or may have been sent; `crc` is the stamped batch's."""

    identity: Identity
    base_sequence: int
    crc: int


class OpenBatch(msgspec.Struct, frozen=True):
    """A batch that is not acknowledged. Without `numbers` it was never sent.

    `place` is its rank among the open batches; a replacement keeps the rank of its original.
    """

    outgoing: Outgoing
    numbers: Numbers | None = None
    place: tuple[int, ...] = ()


class WindowPassed(msgspec.Struct, frozen=True):
    """The part of a shipped batch in the window that starts at `start` (milliseconds).

    All bytes and the CRC count in the first window, as the ledger requires.
    """

    start: int
    events: int
    bytes: int
    crc_sum: int


class Shipped(msgspec.Struct, frozen=True):
    """The offsets of a batch in the log; `base_offset` is -1 if unknown.

    `digest` is that of the batch as it was stamped (ledger/passage_digests.py); empty if unknown,
    as in journals of releases that did not compute it.
    """

    number: int
    topic: str
    topic_id: str
    partition: int
    leader_epoch: int
    base_offset: int
    offsets: int
    windows: tuple[WindowPassed, ...]
    runs: tuple[Run, ...]
    delays: tuple[int, ...]
    window_millis: int = 60_000
    digest: bytes = b""


class Finished(msgspec.Struct, frozen=True):
    """The statement that a source has ended, and all its events are acknowledged."""

    number: int
    source: SourceId
    topic: str
    path: str
    events: int
    size: int


class NotSeen(msgspec.Struct, frozen=True):
    """The statement that nothing is known about a folder or source in some period. A source named
    here has ended."""

    number: int
    unwatched: Unwatched

    @property
    def topic(self) -> str:
        return self.unwatched.topic


Statement = Shipped | Eventless | Finished | NotSeen | AlteredText


class Chosen(msgspec.Struct, frozen=True):
    """The partition of a topic that this agent writes to, as long as the topic id is the same.

    `partitions` is the topic's number of partitions at that time, for events that are spread over
    all of them; 0 if unknown.
    """

    topic_id: str
    partition: int
    partitions: int = 0


class JournalState(msgspec.Struct, frozen=True):
    """The state of a journal when it was opened.

    `copied`, `damage` and `lost_key` are messages to log, if any. `is_torn`: the end of an entry
    was missing. `open` is in the order in which batches are to be sent.
    """

    agent_id: str
    is_copy_of: str | None
    copied: str | None
    damage: str | None
    lost_key: str | None
    sources: tuple[KnownSource, ...]
    open: tuple[OpenBatch, ...]
    statements: tuple[Statement, ...]
    partitions: Mapping[str, Chosen]
    acknowledged_offsets: Mapping[TopicPartition, int]  # of each partition the last
    ledger_seq: int
    looked: Mapping[str, Looked] = {}  # by input
    is_torn: bool = False
    history: HistoryPosition | None = None
    ledger_head: bytes = NO_HEAD
