"""What a journal holds, as values: open batches, statements for the ledger, and all of it together.

A statement is something that happened and is not in the ledger yet: a batch was acknowledged, lines
were read that became no event, a file came to its end. It stays until a batch of the ledger that
covers it is acknowledged itself.
"""

from collections.abc import Mapping

import msgspec

from agent.alterations import AlteredText
from agent.history.blind_times import Looked, Unwatched
from agent.history.position import HistoryPosition
from agent.parcels import Eventless, Outgoing
from agent.runs import KnownSource, Run, SourceId
from client.delivery import TopicPartition
from client.identity import Identity


class Numbers(msgspec.Struct, frozen=True):
    """Under what a batch was sent, or was about to be: `crc` is the stamped batch's."""

    identity: Identity
    base_sequence: int
    crc: int


class OpenBatch(msgspec.Struct, frozen=True):
    """A batch that is not acknowledged. Without `numbers` it was never sent.

    `place` is its rank among the open ones: what takes the place of another stands where it stood.
    """

    outgoing: Outgoing
    numbers: Numbers | None = None
    place: tuple[int, ...] = ()


class WindowPassed(msgspec.Struct, frozen=True):
    """What of a shipped batch lies in the window that starts then (milliseconds).

    All bytes and the CRC are counted where the batch begins, as the ledger wants it.
    """

    start: int
    events: int
    bytes: int
    crc_sum: int


class Shipped(msgspec.Struct, frozen=True):
    """A batch is in the log, at these offsets; `base_offset` is -1 if the broker did not say."""

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


class Finished(msgspec.Struct, frozen=True):
    """A source came to its end, and everything of it is acknowledged."""

    number: int
    source: SourceId
    topic: str
    path: str
    events: int
    size: int


class NotSeen(msgspec.Struct, frozen=True):
    """A time that the agent cannot vouch for: of a folder, or of the end of a source, which is
    over with it."""

    number: int
    unwatched: Unwatched

    @property
    def topic(self) -> str:
        return self.unwatched.topic


Statement = Shipped | Eventless | Finished | NotSeen | AlteredText


class Chosen(msgspec.Struct, frozen=True):
    """The partition that this agent writes to, for as long as the topic is the same one.

    `partitions` is how many the topic had then, for whoever spreads over all of them; 0 if nobody
    said.
    """

    topic_id: str
    partition: int
    partitions: int = 0


class JournalState(msgspec.Struct, frozen=True):
    """What was found when the journal was opened.

    `copied` and `damage` say in words what must be said, if there is anything. `is_torn`: the end
    of an entry was missing. `open` is in the order in which batches are to be sent.
    """

    agent_id: str
    is_copy_of: str | None
    copied: str | None
    damage: str | None
    sources: tuple[KnownSource, ...]
    open: tuple[OpenBatch, ...]
    statements: tuple[Statement, ...]
    partitions: Mapping[str, Chosen]
    acknowledged_offsets: Mapping[TopicPartition, int]  # of each partition the last
    ledger_seq: int
    looked: Mapping[str, Looked] = {}  # by input
    is_torn: bool = False
    history: HistoryPosition | None = None
