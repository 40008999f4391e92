"""Idempotent producers against a plain model of Kafka's rules, and their snapshot file."""

import struct
import tracemalloc
from dataclasses import dataclass, field

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.errors import BadSnapshot, SequenceError
from broker.storage.state.producers import ProducerStates
from wire.errors import ErrorCode
from wire.record_batches.batch import MAX_SEQUENCE, BatchHeader

NOW = 1_790_000_000_000


def batch(producer_id: int, epoch: int, sequence: int, count: int = 1) -> BatchHeader:
    """Of nothing but what the rules look at."""
    sent = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    nothing = dict.fromkeys(BatchHeader._fields, 0) | {"magic": 2, "length": 49}
    return BatchHeader(**nothing | sent | {"last_offset_delta": count - 1, "record_count": count})


@dataclass
class Model:
    """The rules once more, in the plainest way: every batch of every producer is kept."""

    epochs: dict[int, int] = field(default_factory=dict)
    appended: dict[int, list[tuple[int, int, int, int, int]]] = field(default_factory=dict)

    def check(self, header: BatchHeader) -> int | ErrorCode | None:
        known = self.appended.get(header.producer_id)
        if not known:
            return None
        epoch = self.epochs[header.producer_id]
        for first, last, base_offset, _, of_epoch in known[-5:]:
            same = (first, last) == (header.base_sequence, header.last_sequence)
            if same and of_epoch == epoch == header.producer_epoch:
                return base_offset
        if header.producer_epoch < epoch:
            return ErrorCode.invalid_producer_epoch
        expected = 0
        if header.producer_epoch == epoch:
            expected = known[-1][1] + 1 if known[-1][1] < 2**31 - 1 else 0
        if header.base_sequence != expected:
            return ErrorCode.out_of_order_sequence_number
        return None

    def record(self, header: BatchHeader, base_offset: int, now: int) -> None:
        self.epochs[header.producer_id] = header.producer_epoch
        self.appended.setdefault(header.producer_id, []).append(
            (header.base_sequence, header.last_sequence, base_offset, now, header.producer_epoch)
        )


def outcome(states: ProducerStates, header: BatchHeader) -> int | ErrorCode | None:
    try:
        return states.check(header)
    except SequenceError as error:
        return error.code


@st.composite
def traffic(draw: st.DrawFn) -> list[tuple[BatchHeader, int]]:
    """Batches that mostly follow one another, as producers send them, and now and then do not."""
    following: dict[int, tuple[int, int]] = {}
    sent: list[BatchHeader] = []
    for _ in range(draw(st.integers(1, 40))):
        producer_id = draw(st.integers(1, 3))
        count = draw(st.integers(1, 4))
        epoch, sequence = following.get(
            producer_id, (0, draw(st.sampled_from([0, 7, MAX_SEQUENCE - 5])))
        )
        match draw(st.sampled_from(["next"] * 8 + ["again", "again", "epoch", "fenced", "gap"])):
            case "again" if sent:
                sent.append(draw(st.sampled_from(sent[-9:])))
                continue
            case "epoch":
                epoch, sequence = epoch + 1, draw(st.sampled_from([0, 0, 0, 1]))
            case "fenced":
                epoch = max(epoch - 1, 0)
            case "gap":
                sequence = (sequence + draw(st.integers(-3, 3))) & MAX_SEQUENCE
        header = batch(producer_id, epoch, sequence, count)
        following[producer_id] = (epoch, (header.last_sequence + 1) & MAX_SEQUENCE)
        sent.append(header)
    return [(header, draw(st.integers(1, 10**6))) for header in sent]


@given(traffic(), st.integers(1, 9))
def test_the_rules_hold_across_restarts(
    sent: list[tuple[BatchHeader, int]], restart_every: int
) -> None:
    states, model = ProducerStates(), Model()
    end = 0
    for number, (header, now) in enumerate(sent):
        found = outcome(states, header)
        assert found == model.check(header)
        if found is None:
            states.record(header, end, now)
            model.record(header, end, now)
            end += header.last_offset_delta + 1
        if number % restart_every == 0:
            reloaded = ProducerStates()
            reloaded.load(states.encode())
            assert reloaded.encode() == states.encode()
            states = reloaded
    described = {each.producer_id: each for each in states.describe()}
    for producer_id, known in model.appended.items():
        first, last, base_offset, now, epoch = known[-1]
        delta = (last - first) & MAX_SEQUENCE
        assert described[producer_id][1:] == (epoch, last, base_offset + delta, now)
    assert states.last_offsets() == {each: described[each].last_offset for each in described}


def test_without_a_producer_id_nothing_is_checked_or_kept() -> None:
    states = ProducerStates()
    header = batch(-1, -1, -1, 5)
    assert states.check(header) is None
    states.record(header, 0, NOW)
    assert len(states) == 0


@pytest.mark.parametrize(("epoch", "sequence"), [(-1, 0), (0, -1)])
def test_a_producer_without_epoch_or_sequence_is_refused(epoch: int, sequence: int) -> None:
    assert outcome(ProducerStates(), batch(5, epoch, sequence)) is ErrorCode.invalid_record


def test_the_sixth_last_batch_is_no_longer_known() -> None:
    states = ProducerStates()
    for i in range(6):
        states.record(batch(1, 0, i), 100 + i, NOW)
    assert outcome(states, batch(1, 0, 0)) is ErrorCode.out_of_order_sequence_number
    assert [outcome(states, batch(1, 0, i)) for i in range(1, 6)] == [101, 102, 103, 104, 105]
    assert outcome(states, batch(1, 0, 1, 2)) is ErrorCode.out_of_order_sequence_number


def test_producers_expire_by_the_time_of_append() -> None:
    states = ProducerStates()
    states.record(batch(1, 0, 0), 0, NOW)
    states.record(batch(2, 0, 0), 1, NOW + 10)
    states.record(batch(3, 0, 0), 2, NOW + 5000)
    assert states.expire(NOW + 1009, 1000) == 1
    assert {each.producer_id for each in states.describe()} == {2, 3}
    assert states.expire(NOW, 1000) == 0  # a clock that went back
    assert outcome(states, batch(1, 0, 77)) is None


def test_a_copy_stays_as_it_was() -> None:
    states = ProducerStates()
    states.record(batch(1, 0, 0), 0, NOW)
    copy = states.copy()
    before = copy.encode()
    states.record(batch(1, 0, 1), 1, NOW)
    states.record(batch(2, 0, 0), 2, NOW)
    assert copy.encode() == before
    states.clear()
    assert (len(states), len(copy)) == (0, 1)


def test_the_format_is_kafkas() -> None:
    """Laid out by hand after ProducerSnapshot.json; its reader keeps the last of one producer."""
    states = ProducerStates()
    states.record(batch(9, 3, 0, 2), 40, NOW)
    states.record(batch(9, 3, 2, 3), 50, NOW + 1)
    entries = struct.pack(">qhiqiqiq", 9, 3, 1, 41, 1, NOW, -1, -1)
    entries += struct.pack(">qhiqiqiq", 9, 3, 4, 52, 2, NOW + 1, -1, -1)
    body = struct.pack(">i", 2) + entries
    assert states.encode() == struct.pack(">hI", 1, crc32c(body)) + body


@given(st.data())
def test_a_broken_snapshot_is_an_error_and_changes_nothing(data: st.DataObject) -> None:
    states = ProducerStates()
    for i in range(3):
        states.record(batch(i, 0, 0), i, NOW)
    good = states.encode()
    broken = bytearray(good)
    at = data.draw(st.integers(0, len(good) - 1))
    broken[at] ^= data.draw(st.integers(1, 255))
    cut = good[:at]
    for bad in (bytes(broken), cut, good + b"\0"):
        with pytest.raises(BadSnapshot):
            states.load(bad)
    counted = struct.pack(">i", 2**31 - 1)
    with pytest.raises(BadSnapshot):
        states.load(struct.pack(">hI", 1, crc32c(counted)) + counted)
    assert states.encode() == good


@pytest.mark.not_quick("measures memory")
def test_ten_thousand_producers_take_at_most_300_bytes_each() -> None:
    producers = 10_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        states = ProducerStates()
        for i in range(6):
            for producer_id in range(producers):
                states.record(batch(2**40 + producer_id, 0, i), i * producers, NOW)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(states) == producers
    assert taken / producers <= 300
