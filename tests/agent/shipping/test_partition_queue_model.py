"""A partition's leader as a model: its log, what it remembers of producers, what it refuses.

The rules of sequences are the broker's own (`broker.storage.state.producers`), which are Kafka's.
"""

from collections.abc import Collection, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.accounting.parcels import BatchKind, Outgoing
from agent.journal.state import Numbers
from agent.shipping.cures import Cure
from agent.shipping.evidence import Evidence, says_absent
from agent.shipping.in_flight import Sending
from agent.shipping.partition_queue import PartitionQueue, QueuePhase
from broker.storage.errors import SequenceError
from broker.storage.state.producers import ProducerStates
from client.errors import ClientError, ConnectionLost
from client.patience import LONGEST_PAUSE, Pauses
from client.producing.delivery import (
    Acknowledged,
    Batch,
    Event,
    Rejected,
    Stamped,
    TopicPartition,
    Unsettled,
)
from client.producing.identity import Identity
from client.producing.stream import PAUSE_SECONDS, Numbering, Stream
from client.reading.log_search import BatchLocation
from tests.client.partition_model import TARGET, Network, answer
from wire.errors import ErrorCode
from wire.messages.describe_producers import ProducerState
from wire.record_batches.batch import BatchHeader, read_header
from wire.record_batches.records import Record, build_batch, records

LARGE = 4  # records: refused


class Partition:
    """The log and the rules of sequences, with what a leader remembers."""

    def __init__(self) -> None:
        self.log: list[tuple[BatchHeader, list[int]]] = []
        self.end = 0
        self.producers = ProducerStates()

    def append(self, batch: Stamped) -> tuple[ErrorCode, int]:
        header = read_header(batch.data)
        if header.record_count >= LARGE:
            return ErrorCode.message_too_large, -1
        try:
            known = self.producers.check(header)
        except SequenceError as error:
            return error.code, -1
        if known is not None:
            return ErrorCode.none, known
        self.producers.record(header, self.end, 0)
        self.log.append((header._replace(base_offset=self.end), values(batch.batch)))
        self.end += header.record_count
        return ErrorCode.none, self.log[-1][0].base_offset

    def restart(self) -> None:
        """As Apache Kafka's broker: its snapshots hold only the last batch of each producer."""
        newest = {header.producer_id: header for header, _ in self.log}
        states = {each.producer_id for each in self.producers.describe()}
        self.producers.clear()
        for header in newest.values():
            if header.producer_id in states:
                self.producers.record(header, header.base_offset, 0)

    def rival(self) -> None:
        """Somebody else writes under an epoch of every id that we shall not come to."""
        for each in list(self.producers.describe()):
            header = self.log[0][0]._replace(
                producer_id=each.producer_id,
                producer_epoch=each.epoch + 100,
                base_sequence=0,
                base_offset=self.end,
                record_count=1,
                last_offset_delta=0,
            )
            self.producers.record(header, self.end, 0)
            self.log.append((header, []))
            self.end += 1

    def evidence(self, sent: Sequence[Stamped], offset: int) -> Evidence:
        states = {
            each.producer_id: ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.last_sequence,
            )
            for each in self.producers.describe()
        }
        wanted = {
            (*each.identity, each.base_sequence, each.batch.records): each
            for each in sent
            if not says_absent(states, each)
        }
        found = {}
        for header, _ in self.log:
            numbers = header.producer_id, header.producer_epoch, header.base_sequence
            each = wanted.get((*numbers, header.record_count))
            if each is not None and header.base_offset >= offset:
                found[each] = BatchLocation(header.base_offset, 0)
        return Evidence("", 1, states, found, offset, offset)


def values(batch: Batch) -> list[int]:
    return [int(each.value or b"") for each in records(batch.data)]


def batch_of(numbers: Sequence[int]) -> Batch:
    messages = [Record(at, 0, None, b"%d" % number) for at, number in enumerate(numbers)]
    return Batch(TARGET, build_batch(messages, leader_epoch=-1))


LIKELY = {"add": 5, "serve": 8, "serve_all": 3, "receive": 8, "receive_all": 3, "wait": 4}
UNLIKELY = {"add_large": 1, "fail_before": 1, "fail_after": 1, "lose": 2, "serve_stale": 2}
RARE = {
    "kill": 2,
    "find_out": 6,
    "fence": 1,
    "restart": 1,
    "be_away_for_days": 1,
    "be_idle_for_days": 1,
    "not_know": 1,
}
ACTIONS = [action for action, n in (LIKELY | UNLIKELY | RARE).items() for _ in range(n)]


class Disk(msgspec.Struct):
    """What survives: open batches in their order, and the last acknowledged offset."""

    open: list[tuple[Outgoing, Numbers | None]] = []
    next_offset: int = 0
    is_ahead: bool = False  # of a log that has lost its end
    number: int = 0
    identities: int = 0

    def outgoing(self, numbers: Sequence[int]) -> Outgoing:
        self.number += 1
        return Outgoing(self.number, BatchKind.EVENTS, batch_of(numbers))

    def place(self, number: int) -> int:
        return next(at for at, (each, _) in enumerate(self.open) if each.number == number)


class World:
    """Also what a queue crosses: there is one stream; questions wait until they are answered."""

    def __init__(self) -> None:
        self.now = 0.0
        self.partition = Partition()
        self.disk = Disk()
        self.submitted = 0
        self.stale: list[Stamped] = []
        self.begin()

    # The agent

    def begin(self) -> None:
        self.network = Network()
        self.question: tuple[PartitionQueue, list[Stamped], bool] | None = None
        self.own: Identity | None = None
        self.handed: dict[Batch, Sending] = {}
        self.later: list[Event] = []  # what halting brings
        self.stream = Stream(TARGET, Numbering.LENT, Pauses(lambda: 1.0), Identity(0, 0))
        self.queue = PartitionQueue(TARGET, self, stand_seconds=1.0)
        for outgoing, numbers in self.disk.open:
            self.queue.add(Sending(outgoing, outgoing.number, numbers))

    def kill(self) -> None:
        self.stale += self.network.breaks()
        self.network.stale.clear()
        self.begin()

    def add(self, count: int = 1) -> None:
        for size in (count, 3, 1) if count == 1 else (count,):
            numbers = range(self.submitted, self.submitted + size)
            self.submitted += size
            outgoing = self.disk.outgoing(numbers)
            self.disk.open.append((outgoing, None))
            self.queue.add(Sending(outgoing, outgoing.number))

    def add_large(self) -> None:
        self.add(LARGE + self.submitted % 4)

    def send(self) -> None:
        self.queue.work(self.now)
        while (at := self.stream.ready_at(self.now)) is not None and at <= self.now:
            batch = self.stream.next(self.now)
            if self.stream.is_first_sending(batch):
                self.write_down(batch)
            self.stream.sent(batch)
            self.network.requests.append(batch)

    def write_down(self, batch: Stamped) -> None:
        sending = self.handed[batch.batch]
        crc = int.from_bytes(batch.head[17:21], "big")
        sending.numbers = Numbers(batch.identity, batch.base_sequence, crc)
        at = self.disk.place(sending.outgoing.number)
        self.disk.open[at] = sending.outgoing, sending.numbers

    # What a queue crosses

    def renew(
        self, queue: PartitionQueue, identity: Identity, sequence: int, first: Sequence[Sending]
    ) -> None:
        self.handed.update({each.batch: each for each in first})
        self.stream.renew(identity, sequence, [each.batch for each in first])

    def submit(self, queue: PartitionQueue, sending: Sending) -> None:
        self.handed[sending.batch] = sending
        self.stream.submit(sending.batch)

    def halt(self, target: TopicPartition, error: ClientError) -> None:
        waiting, events = self.stream.halt(error)
        for batch in waiting:
            del self.handed[batch]
        self.later += events

    def ask(self, queue: PartitionQueue, sent: Sequence[Stamped], *, everywhere: bool) -> None:
        self.question = queue, list(sent), everywhere

    def identity(self, spent: int | None) -> Identity | None:
        if self.own is None or self.own.producer_id == spent:
            self.disk.identities += 1
            self.own = Identity(self.disk.identities, 0)
        return self.own

    def leader_epoch(self, target: TopicPartition) -> int:
        return 0

    def acknowledged(self, sending: Sending, offset: int, leader_epoch: int) -> None:
        at = self.disk.place(sending.outgoing.number)
        assert at == 0, "acknowledged in order"
        assert offset >= self.disk.next_offset or self.disk.is_ahead
        ((header, there),) = (
            (header, found) for header, found in self.partition.log if header.base_offset == offset
        )
        assert there == values(sending.batch)
        assert header.crc == read_header(sending.as_sent().head).crc, "its numbers are the last"
        del self.disk.open[0]
        self.disk.next_offset = offset + sending.batch.records

    def replaced(self, sending: Sending, cure: Cure, reason: str) -> list[Sending] | None:
        if cure is Cure.STAND:
            return None
        assert cure is Cure.SPLIT
        numbers = values(sending.batch)
        middle = len(numbers) // 2
        halves = [self.disk.outgoing(part) for part in (numbers[:middle], numbers[middle:])]
        at = self.disk.place(sending.outgoing.number)
        self.disk.open[at : at + 1] = [(each, None) for each in halves]
        return [Sending(each, sending.origin) for each in halves]

    def foreseen(self, sending: Sending, met: Collection[Cure]) -> Cure | None:
        large = sending.batch.records >= LARGE + 2  # it knows no better
        return Cure.SPLIT if large and Cure.SPLIT in met else None

    def moved(self, sending: Sending, target: TopicPartition) -> None:
        raise AssertionError("the topic of this model is never made anew")

    def successor(self, target: TopicPartition) -> TopicPartition | None:
        return None

    # The way, and the partition

    def serve(self) -> None:
        if self.network.requests:
            batch = self.network.requests.popleft()
            self.network.answers.append((batch, answer(*self.partition.append(batch))))

    def serve_all(self) -> None:
        while self.network.requests:
            self.serve()

    def fail_before(self) -> None:
        if self.network.requests:
            batch = self.network.requests.popleft()
            self.network.answers.append((batch, answer(ErrorCode.not_enough_replicas)))

    def fail_after(self) -> None:
        self._serve_and_answer(ErrorCode.not_leader_or_follower)

    def not_know(self) -> None:
        self._serve_and_answer(ErrorCode.unknown_server_error)

    def _serve_and_answer(self, code: ErrorCode) -> None:
        if self.network.requests:
            batch = self.network.requests.popleft()
            self.partition.append(batch)
            self.network.answers.append((batch, answer(code)))

    def receive(self) -> None:
        if self.network.answers:
            batch, said = self.network.answers.popleft()
            self.happen(self.stream.answered(batch, said, self.now))

    def receive_all(self) -> None:
        while self.network.answers:
            self.receive()

    def lose(self) -> None:
        lost = self.network.breaks()
        self.stale += self.network.stale
        self.network.stale.clear()
        for batch in lost:
            self.happen(self.stream.lost(batch, ConnectionLost("broken"), self.now))

    def serve_stale(self) -> None:
        if self.stale:
            self.partition.append(self.stale.pop(0))

    def wait(self) -> None:
        self.now += LONGEST_PAUSE

    def restart(self) -> None:
        self.partition.restart()

    def fence(self) -> None:
        if self.partition.log and not self.stale and not self.network.requests:
            self.partition.rival()

    def be_away_for_days(self) -> None:
        self.kill()
        self.stale.clear()
        self.partition.producers.clear()

    def be_idle_for_days(self) -> None:
        if not self.disk.open and not self.stale:
            self.now += PAUSE_SECONDS
            self.partition.producers.clear()

    def find_out(self) -> None:
        if self.question is not None:
            (queue, sent, everywhere), self.question = self.question, None
            offset = 0 if everywhere else self.disk.next_offset
            queue.looked_up(sent, self.partition.evidence(sent, offset), self.now)

    def happen(self, events: Sequence[Event]) -> None:
        waiting = list(events)
        while waiting:
            match waiting.pop(0):
                case Acknowledged(batch, offset):
                    self.queue.acknowledged(self.handed.pop(batch), offset)
                case Rejected(batch, error):
                    self.queue.rejected(self.handed.pop(batch), error)
                case Unsettled(_, batches, error):
                    for each in batches:
                        del self.handed[each.batch]
                    self.queue.unsettled(error, self.now)
            waiting += self.take_later()

    def take_later(self) -> list[Event]:
        later, self.later = self.later, []
        return later

    # What must hold

    def in_log(self) -> list[int]:
        return [number for _, found in self.partition.log for number in found]

    def check(self) -> None:
        found = self.in_log()
        assert found == sorted(set(found)), "in order, each once"
        kept = [number for each, _ in self.disk.open for number in values(each.batch)]
        assert kept == list(range(self.submitted - len(kept), self.submitted))
        done = range(self.submitted - len(kept))
        assert set(done) <= set(found), "what the journal has let go is there"
        assert [sending.outgoing for sending in self.queue.sendings] == [
            each for each, _ in self.disk.open
        ]

    def settle(self) -> None:
        """All goes well from now on."""
        for _ in range(500):
            if not self.disk.open:
                break
            self.serve_all()
            self.receive_all()
            self.find_out()
            self.now += 60
            self.send()
        assert self.in_log() == list(range(self.submitted))
        assert not self.disk.open
        assert self.queue.phase in {QueuePhase.FLOWING, QueuePhase.BACK}


@pytest.mark.fuzz
@given(actions=st.lists(st.sampled_from(ACTIONS), min_size=40, max_size=100))
def test_every_line_once_and_in_order(actions: list[str]) -> None:
    world = World()
    for action in actions:
        getattr(world, action)()
        world.send()
        world.happen([])
        world.check()
    world.settle()
    world.check()


def test_a_log_that_has_lost_its_end_may_have_them_below() -> None:
    """Others have written more since, and so it does not show. For a while replicas may be behind;
    then all of the log is looked at, and seldom."""
    world = World()
    world.add()
    world.send()
    world.serve_all()
    world.disk.next_offset, world.disk.is_ahead = 100, True
    world.kill()
    times: list[float] = []
    for _ in range(2_000):
        world.send()
        if world.question is not None:
            (queue, sent, everywhere), world.question = world.question, None
            times += [world.now] * everywhere
            is_seen = len(times) > 1  # the first time, replicas are behind
            evidence = world.partition.evidence(sent, 0 if is_seen else 100)
            queue.looked_up(sent, evidence, world.now)
        world.now += 0.5
    assert times == [pytest.approx(30, abs=1.5), pytest.approx(630, abs=3)]
    world.settle()
