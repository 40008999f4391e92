"""The idempotent producers of one partition, and the rules for their sequences.

Rule 1: a batch that equals one of its producer's last five (epoch, first and last sequence) is a
        duplicate: it is answered with the original's offset and not appended. Whether it is the
        same batch is checked against the log's bytes (`repeated_batches.py`).
Rule 2: a lower epoch than the last is fenced off; a higher one begins at sequence 0.
Rule 3: within an epoch the next sequence follows the last without a gap, from 2³¹−1 on to 0.
Rule 4: a producer unknown here may begin anywhere: it may have been forgotten.

The rules are Apache Kafka's, and so is the snapshot's format (version 1), with one liberty that it
allows: a producer's remembered batches are successive entries, oldest first. Kafka's reader keeps
the last of them, ours all five, so that a retried batch is recognized across a restart too. The
times are those of append.

A producer is one immutable packed value, newest batch first, so that ten thousand of them take at
most three megabytes, and a copy of the dict is a consistent copy of the state, for a thread to
encode. Nothing is written here: after a crash the log loads the newest good snapshot and records
the batches after it again.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple, Self

from crc32c import crc32c

from broker.storage.errors import BadSnapshot, SequenceError
from wire.errors import ErrorCode
from wire.record_batches.batch import MAX_SEQUENCE, BatchHeader

REMEMBERED_BATCHES = 5

# epoch | last sequence, offset delta, base offset, append time of the newest | … of older ones
_NEWEST = struct.Struct(">hiiqq")
_BATCH = struct.Struct(">iiqq")
_BATCHES_AT = 2
_OLDER_END = _BATCHES_AT + (REMEMBERED_BATCHES - 1) * _BATCH.size

_VERSION = 1
_VERSION_AND_CRC = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
# producer id, epoch, last sequence, last offset, offset delta, time, coordinator epoch, transaction
_ENTRY = struct.Struct(">qhiqiqiq")
_NO_COORDINATOR = -1
_NO_TRANSACTION = -1


class ProducerDescription(NamedTuple):
    """One producer, as DescribeProducers returns it."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    last_timestamp: int


class ProducerStates:
    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._states)

    def check(self, header: BatchHeader) -> int | None:
        """Checks a batch's numbers. Returns None if it may be appended, or the original's base
        offset if it is a duplicate. Raises `SequenceError`."""
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch < 0 or sequence < 0:
            raise SequenceError(
                ErrorCode.invalid_record,
                f"producer {producer_id} sent invalid epoch {epoch} or sequence {sequence}",
            )
        state = self._states.get(producer_id)
        if state is None:
            return None
        known_epoch, last_sequence, _, _, _ = _NEWEST.unpack_from(state)
        if epoch == known_epoch:
            if sequence == (last_sequence + 1) & MAX_SEQUENCE:
                return None
            return _original(state, header)
        if epoch < known_epoch:
            raise SequenceError(
                ErrorCode.invalid_producer_epoch,
                f"producer {producer_id} has epoch {known_epoch}, the batch has {epoch}",
            )
        if sequence != 0:
            raise SequenceError(
                ErrorCode.out_of_order_sequence_number,
                f"producer {producer_id} began epoch {epoch} with sequence {sequence}, not 0",
            )
        return None

    def record(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Remembers an appended batch. During recovery, batches are recorded without a check."""
        producer_id = header.producer_id
        if producer_id < 0 or header.base_sequence < 0:
            return  # the end of a transaction has no sequence
        delta = header.last_offset_delta
        last_sequence = (header.base_sequence + delta) & MAX_SEQUENCE
        newest_batch = _NEWEST.pack(
            header.producer_epoch, last_sequence, delta, base_offset, now_ms
        )
        self._remember(producer_id, newest_batch)

    def _remember(self, producer_id: int, newest: bytes) -> None:
        state = self._states.get(producer_id)
        if state is not None and state[:_BATCHES_AT] == newest[:_BATCHES_AT]:
            newest += state[_BATCHES_AT:_OLDER_END]
        self._states[producer_id] = newest

    def expire(self, now_ms: int, max_age_ms: int) -> int:
        """Forgets producers that have not appended for this long; returns their number."""
        oldest_ms = now_ms - max_age_ms
        states = self._states
        old_ids = [
            producer_id
            for producer_id in states
            if _NEWEST.unpack_from(states[producer_id])[4] <= oldest_ms
        ]
        for producer_id in old_ids:
            del states[producer_id]
        return len(old_ids)

    def last_offsets(self) -> dict[int, int]:
        """Returns the last offset of each producer: compaction must keep the batches at these
        offsets."""
        return {producer.producer_id: producer.last_offset for producer in self.describe()}

    def describe(self) -> Iterator[ProducerDescription]:
        for producer_id, state in self._states.items():
            epoch, last_sequence, delta, base_offset, time = _NEWEST.unpack_from(state)
            yield ProducerDescription(producer_id, epoch, last_sequence, base_offset + delta, time)

    def copy(self) -> Self:
        copy = type(self)()
        copy._states = self._states.copy()
        return copy

    def clear(self) -> None:
        self._states.clear()

    def encode(self) -> bytes:
        entries = bytearray()
        count = 0
        for producer_id, state in self._states.items():
            (epoch,) = struct.unpack_from(">h", state)
            for at in range(len(state) - _BATCH.size, 0, -_BATCH.size):
                last_sequence, delta, base_offset, time = _BATCH.unpack_from(state, at)
                entries += _ENTRY.pack(
                    producer_id,
                    epoch,
                    last_sequence,
                    base_offset + delta,
                    delta,
                    time,
                    _NO_COORDINATOR,
                    _NO_TRANSACTION,
                )
                count += 1
        body = _COUNT.pack(count) + entries
        return _VERSION_AND_CRC.pack(_VERSION, crc32c(body)) + body

    def load(self, data: bytes) -> None:
        """Loads a snapshot file; raises `BadSnapshot` without a change if it is damaged."""
        states = ProducerStates()
        body = memoryview(data)[_VERSION_AND_CRC.size :]
        if len(body) < _COUNT.size:
            raise BadSnapshot(f"the producer snapshot is too short: {len(data)} bytes")
        version, crc = _VERSION_AND_CRC.unpack_from(data)
        if version != _VERSION:
            raise BadSnapshot(f"the producer snapshot has version {version}, not {_VERSION}")
        if crc32c(body) != crc:
            raise BadSnapshot("the producer snapshot's CRC does not match its bytes")
        (count,) = _COUNT.unpack_from(body)
        entries = body[_COUNT.size :]
        if len(entries) != count * _ENTRY.size:
            raise BadSnapshot(f"the producer snapshot has {len(entries)} bytes for {count} entries")
        for producer_id, epoch, last_sequence, last_offset, delta, time, _, _ in _ENTRY.iter_unpack(
            entries
        ):
            if last_offset >= 0:  # Kafka writes -1 for a producer that only ended a transaction
                newest_batch = _NEWEST.pack(epoch, last_sequence, delta, last_offset - delta, time)
                states._remember(producer_id, newest_batch)
        self._states = states._states


def _original(state: bytes, header: BatchHeader) -> int:
    sequence_and_delta = header.last_sequence, header.last_offset_delta
    for position in range(_BATCHES_AT, len(state), _BATCH.size):
        last_sequence, delta, base_offset, _ = _BATCH.unpack_from(state, position)
        if (last_sequence, delta) == sequence_and_delta:
            return int(base_offset)
    _, last_sequence, _, _, _ = _NEWEST.unpack_from(state)
    raise SequenceError(
        ErrorCode.out_of_order_sequence_number,
        f"producer {header.producer_id} sent sequence {header.base_sequence} after {last_sequence}",
    )
