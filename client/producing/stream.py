"""The batches of one partition, in order, from submission to their outcome. No I/O, no clock.

A batch is numbered just before it is first sent: waiting batches have no numbers that an error
could invalidate. Batches with numbers are *open*, at most five, because a broker recognizes the
last five of a producer when they are sent again.

Rule 1  Open batches are sent again in order with the same numbers until their outcome is known.
        After a failure nothing is sent while answers are outstanding; then the first open batch is
        sent again.
Rule 2  One batch is sent at a time until one is acknowledged: at the start, in a new epoch, after a
        failure, after a pause. A broker that does not know a producer accepts any sequence from it:
        it would accept the second of two batches without the first.
Rule 3  A batch that is permanently refused goes back to the caller and ends the epoch. The open
        batches behind it are not in the log and cannot be accepted, as their sequences leave a gap.
        Each is sent until the broker has said so; then they, and all later batches, are numbered
        from 0 in the next epoch. No epoch and sequence are used for two batches, and delayed copies
        of the old batches are fenced off.
Rule 4  A refused batch that an earlier sending may have written, because the answer was lost, does
        not count as refused: its outcome is unknown.
Rule 5  Where only the log can tell what it has (Rule 4, an unexpected sequence, a fenced epoch, an
        expired deadline), the stream waits for outstanding answers, returns the open batches as one
        event, and stops until it is renewed.

Without numbers (acks other than all) one batch is sent at a time, and may be written twice if its
answer is lost. A stream with a lent identity never changes its epoch: Rule 5 replaces Rule 3.
Nothing of this survives a crash: callers that need it record the batches before they are sent.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import islice
from typing import Final

import msgspec

from client.errors import ClientError, ConnectionLost, ErrorCode, Refused, refusal
from client.patience import NEVER, Pauses
from client.producing.delivery import (
    Acknowledged,
    Batch,
    Event,
    Rejected,
    Stamped,
    TopicPartition,
    Unsettled,
    unnumbered,
)
from client.producing.identity import Identity
from client.producing.produce_errors import FENCED, NOTHING_WRITTEN, ErrorVerdict, verdict
from client.producing.stamping import stamped
from client.rights import on_topic
from wire.acls import Operation
from wire.messages.produce import PartitionProduceResponse
from wire.record_batches.batch import next_sequence

WINDOW: Final = 5
PAUSE_SECONDS: Final = 60.0  # after such a pause the broker may have forgotten a producer
CORRUPT_ATTEMPTS: Final = 3  # a bit may flip in transit, but not every time


class Numbering(Enum):
    """Whether a stream numbers its batches, and who may change the epoch of its producer id."""

    NONE = auto()  # batches are sent without numbers
    OWN = auto()  # the stream may increment its epoch
    LENT = auto()  # only the lender may change its epoch


class _State(Enum):
    FLOWING = auto()
    ENDING = auto()  # the epoch ends: nothing new is numbered until its open batches are settled
    HALTING = auto()  # answers are outstanding
    HALTED = auto()


class _Entry(msgspec.Struct, eq=False):
    batch: Batch
    due: float
    stamped: Stamped | None = None
    tried: bool = False  # sent with these numbers
    under_way: bool = False
    doubtful: bool = False  # an earlier sending may have written it
    behind_gap: bool = False  # a batch before it was refused
    absent: bool = False  # and the broker has said that this one is absent
    corrupt: int = 0


class Stream:
    """The batches for one partition. Methods that take an outcome return the resulting events."""

    def __init__(
        self,
        target: TopicPartition,
        numbering: Numbering,
        pauses: Pauses,
        identity: Identity | None = None,
        sequence: int = 0,
    ) -> None:
        """Numbers batches from `sequence` on; `identify` may provide the identity later."""
        self.target = target
        self.trouble: ClientError | None = None  # the error that delays it
        self._numbering = numbering
        self._pauses = pauses
        self._identity = identity
        self._sequence = sequence
        self._spent: int | None = None  # a producer id that is used up
        self._entries: deque[_Entry] = deque()
        self._open = 0  # the number of stamped entries, at the front
        self._under_way = 0
        self._state = _State.FLOWING
        self._reason: ClientError | None = None  # why it halts
        self._failed = False  # since no answer was last outstanding
        self._acknowledged_at = -NEVER
        self._not_before = 0.0

    def __len__(self) -> int:
        """The number of batches that have not come back to the caller."""
        return len(self._entries)

    @property
    def halted(self) -> bool:
        return self._state is _State.HALTED

    @property
    def needs_identity(self) -> bool:
        lacks_identity = self._numbering is not Numbering.NONE and self._identity is None
        return lacks_identity and bool(self._entries) and not self.halted

    def takes(self, identity: Identity) -> bool:
        """Returns whether this identity has numbers left."""
        return identity.producer_id != self._spent

    def identify(self, identity: Identity) -> None:
        self._identity, self._sequence = identity, 0

    def submit(self, batch: Batch, due: float = NEVER) -> None:
        """Accepts a batch, and returns it later unless it is acknowledged by `due`."""
        self._entries.append(_Entry(batch, due))

    def ready_at(self, now: float) -> float | None:
        """Returns the time at which the next batch may be sent; None if another event must come
        first."""
        return None if self._next(now) is None else self._not_before

    def next(self, now: float) -> Stamped:
        """Returns the batch to send next, which is open from now on."""
        entry = self._next(now)
        assert entry is not None
        if entry.stamped is None:
            entry.stamped = self._numbered(entry.batch)
            self._open += 1
        return entry.stamped

    def is_first_sending(self, batch: Stamped) -> bool:
        """Returns whether no broker can have received the batch with these numbers."""
        return not self._entry(batch).tried

    def sent(self, batch: Stamped) -> None:
        """Notes that the batch is in flight: `answered` or `lost` will follow."""
        entry = self._entry(batch)
        entry.tried = entry.under_way = True
        self._under_way += 1

    def answered(
        self, batch: Stamped, answer: PartitionProduceResponse, now: float, who: str = ""
    ) -> list[Event]:
        """Processes the response; `who` describes the client, for messages."""
        entry = self._arrived(batch)
        code = answer.error_code
        needs = on_topic(who, self.target.topic, Operation.WRITE)
        error = refusal(str(self.target), code, answer.error_message, needs=needs)
        match verdict(code):
            case ErrorVerdict.TAKEN:
                events = self._taken(entry, answer.base_offset, now)
            case ErrorVerdict.AGAIN:
                events = self._again(entry, error, now)
            case ErrorVerdict.REFUSED:
                events = self._refused(entry, error)
            case ErrorVerdict.OUT_OF_ORDER:
                events = self._out_of_order(entry, error)
            case ErrorVerdict.OPEN:
                events = self._halt(error)
        return [*events, *self._settle()]

    def lost(self, batch: Stamped, error: ClientError, now: float) -> list[Event]:
        """Notes that the connection broke, or that the answer timed out."""
        self._arrived(batch).doubtful = True
        self._fail(error, now)
        return self._settle()

    def expire(self, now: float) -> list[Event]:
        """Returns overdue batches."""
        if self._is_stopped() or not self._entries or now < self._entries[0].due:
            return []
        error = self.trouble or ConnectionLost(f"{self.target}: not acknowledged in time")
        if self._open:
            return [*self._halt(error), *self._settle()]
        late_entries = [entry for entry in self._entries if entry.due <= now]
        for _ in late_entries:
            self._entries.popleft()
        return [Rejected(entry.batch, error) for entry in late_entries]

    def halt(self, error: ClientError) -> tuple[list[Batch], list[Event]]:
        """Returns batches without numbers; applies Rule 5 unless halted already."""
        waiting_batches = [
            self._entries.pop().batch for _ in range(len(self._entries) - self._open)
        ]
        if self._is_stopped():
            return waiting_batches[::-1], []
        return waiting_batches[::-1], [*self._halt(error), *self._settle()]

    def refuse_all(self, error: ClientError) -> list[Event]:
        """Returns all batches with an error, as none can ever be sent."""
        if self._is_stopped():
            return []
        if self._open:
            return [*self._halt(error), *self._settle()]
        rejections = [Rejected(entry.batch, error) for entry in self._entries]
        self._entries.clear()
        return list(rejections)

    def renew(
        self,
        identity: Identity | None = None,
        sequence: int = 0,
        first: Sequence[Batch] = (),
        due: float = NEVER,
    ) -> None:
        """Restarts the stream, with the batches `first` before all that wait.

        Under `identity` from `sequence` on; without one, under the next epoch, or a new id if there
        is none.
        """
        if self._open:
            raise ValueError(f"{self.target} still has {self._open} open batches")
        if identity is not None:
            self._identity, self._sequence = identity, sequence
        elif self._numbering is Numbering.LENT:
            raise ValueError(f"{self.target}: the epoch of a lent identity must not be changed")
        else:
            self._begin_epoch()
        self._entries.extendleft(_Entry(batch, due) for batch in reversed(first))
        self._state, self._reason, self.trouble = _State.FLOWING, None, None
        self._acknowledged_at = -NEVER

    def _is_stopped(self) -> bool:
        return self._state is _State.HALTING or self._state is _State.HALTED

    def _open_entries(self) -> Iterator[_Entry]:
        return islice(self._entries, self._open)

    def _entry(self, batch: Stamped) -> _Entry:
        return next(entry for entry in self._open_entries() if entry.stamped is batch)

    def _next(self, now: float) -> _Entry | None:
        if self._is_stopped() or (self._failed and self._under_way):
            return None
        is_steady = now - self._acknowledged_at < PAUSE_SECONDS
        sends_many = is_steady and self._numbering is not Numbering.NONE
        if self._under_way >= (WINDOW if sends_many else 1):
            return None
        for entry in self._open_entries():
            if not entry.under_way and not entry.absent:
                return entry
        lacks_identity = self._numbering is not Numbering.NONE and self._identity is None
        if lacks_identity or self._state is _State.ENDING or self._open >= WINDOW:
            return None
        return self._entries[self._open] if self._open < len(self._entries) else None

    def _numbered(self, batch: Batch) -> Stamped:
        if self._identity is None:
            return unnumbered(batch)
        stamped_batch = stamped(batch, self._identity, self._sequence)
        self._sequence = next_sequence(self._sequence, batch.records)
        return stamped_batch

    def _arrived(self, batch: Stamped) -> _Entry:
        entry = self._entry(batch)
        entry.under_way = False
        self._under_way -= 1
        return entry

    def _taken(self, entry: _Entry, base_offset: int, now: float) -> list[Event]:
        self._remove(entry)
        self._acknowledged_at = now
        self._not_before = 0.0
        self._pauses.reset()
        self.trouble = None
        return [Acknowledged(entry.batch, None if base_offset < 0 else base_offset)]

    def _again(self, entry: _Entry, error: Refused, now: float) -> list[Event]:
        if error.code not in NOTHING_WRITTEN:
            entry.doubtful = True
        if error.code is ErrorCode.corrupt_message:
            entry.corrupt += 1
            if entry.corrupt >= CORRUPT_ATTEMPTS:
                return self._refused(entry, error)
        self._fail(error, now)
        return []

    def _fail(self, error: ClientError, now: float) -> None:
        if not self._failed:
            self._not_before = now + self._pauses.next()
        self._failed = True
        self._acknowledged_at = -NEVER
        self.trouble = error

    def _refused(self, entry: _Entry, error: ClientError) -> list[Event]:
        if entry.doubtful:
            return self._halt(error)
        is_behind = False
        for open_entry in self._open_entries():
            open_entry.behind_gap |= is_behind
            is_behind |= open_entry is entry
        self._remove(entry)
        self._acknowledged_at = -NEVER
        if self._numbering is Numbering.LENT:
            self._halt(error)
        elif self._numbering is Numbering.OWN and not self._is_stopped():
            self._state = _State.ENDING
        return [Rejected(entry.batch, error)]

    def _out_of_order(self, entry: _Entry, error: ClientError) -> list[Event]:
        if entry.behind_gap:
            entry.absent = True
        elif entry is self._entries[0]:
            return self._halt(error)
        else:  # a consequence of the failure before it, which is reported
            self._failed = True
        return []

    def _halt(self, error: ClientError) -> list[Event]:
        if not self._is_stopped():
            self._state, self._reason = _State.HALTING, error
        return []

    def _settle(self) -> list[Event]:
        """Continues once no answer is outstanding."""
        if self._under_way:
            return []
        self._failed = False
        if self._state is _State.HALTING:
            return [self._halted()]
        if self._state is _State.ENDING and all(entry.absent for entry in self._open_entries()):
            self._begin_epoch()
            self._state = _State.FLOWING
        return []

    def _halted(self) -> Unsettled:
        assert self._reason is not None
        returned_entries = [self._entries.popleft() for _ in range(self._open)]
        self._open = 0
        self._state = _State.HALTED
        self.trouble = self._reason
        batches = tuple(entry.stamped for entry in returned_entries if entry.stamped is not None)
        return Unsettled(self.target, batches, self._reason)

    def _begin_epoch(self) -> None:
        """Returns open batches, none of them in the log, to the queue without their numbers."""
        for entry in self._open_entries():
            entry.stamped = None
            entry.tried = entry.doubtful = entry.behind_gap = entry.absent = False
            entry.corrupt = 0
        self._open = 0
        self._acknowledged_at = -NEVER
        self._sequence = 0
        if self._identity is None:
            return
        next_identity = self._identity.next_epoch()
        if isinstance(self._reason, Refused) and self._reason.code in FENCED:
            next_identity = None
        if next_identity is None:
            self._spent = self._identity.producer_id
        self._identity = next_identity

    def _remove(self, entry: _Entry) -> None:
        self._entries.remove(entry)
        self._open -= 1
