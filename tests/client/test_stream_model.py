"""A stream against a partition, with everything between them going wrong in any order.

Whatever happens: batches lie in the log in the order of their submission, none twice; what was
acknowledged is there, what was rejected is not; at most five are open; each comes back once. A
caller that looks for unsettled batches in the log, and sends those again that are not there, has in
the end every batch in the log that was not rejected.
"""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.errors import ConnectionLost, Refused
from client.patience import LONGEST_PAUSE, Pauses
from client.producing.delivery import Acknowledged, Batch, Event, Rejected, Stamped, Unsettled
from client.producing.identity import Identity
from client.producing.stream import PAUSE_SECONDS, Numbering, Stream
from tests.client.partition_model import TARGET, Network, PartitionModel, answer, batch_of
from wire.errors import ErrorCode

# How often each is tried; what cannot happen at the moment is left out.
LIKELY = {"submit": 6, "serve": 8, "serve_all": 3, "receive": 8, "receive_all": 3, "wait": 3}
UNLIKELY = {"refuse": 2, "fail_before": 1, "fail_after": 1, "lose": 2, "serve_stale": 1}
RARE = {"restart": 1, "fence": 1, "be_forgotten": 1, "not_know": 1}
ACTIONS = [action for action, n in (LIKELY | UNLIKELY | RARE).items() for _ in range(n)]


class World:
    """A stream, a partition, what is between them, and a caller that keeps book."""

    def __init__(self, numbering: Numbering) -> None:
        self.now = 0.0
        self.partition = PartitionModel()
        self.network = Network()
        self.submitted: list[Batch] = []
        self.acknowledged: dict[Batch, int | None] = {}
        self.rejected: set[Batch] = set()
        self.found: set[Batch] = set()
        self.open: dict[Batch, Stamped] = {}
        self.restarted = self.fenced = False
        self.lent = Identity(1, 0) if numbering is Numbering.LENT else None
        self.last_id = 1
        self.stream = Stream(TARGET, numbering, Pauses(lambda: 1.0), self.lent)

    def submit(self) -> None:
        for records in (1, 3, 2):
            batch = batch_of(len(self.submitted), records)
            self.submitted.append(batch)
            self.stream.submit(batch)

    def send(self) -> None:
        if self.stream.needs_identity:
            self.last_id += 1
            assert self.stream.takes(Identity(self.last_id, 0))
            self.stream.identify(Identity(self.last_id, 0))
        while (at := self.stream.ready_at(self.now)) is not None and at <= self.now:
            batch = self.stream.next(self.now)
            self.stream.sent(batch)
            assert batch not in self.network.requests
            self.network.requests.append(batch)
            self.open[batch.batch] = batch

    def serve(self) -> None:
        if self.network.requests:
            batch = self.network.requests.popleft()
            self.network.answers.append((batch, self.partition.append(batch)))

    def serve_all(self) -> None:
        while self.network.requests:
            self.serve()

    def refuse(self) -> None:
        self._answer(ErrorCode.message_too_large)

    def fail_before(self) -> None:
        self._answer(ErrorCode.not_enough_replicas)

    def _answer(self, code: ErrorCode) -> None:
        if self.network.requests:
            self.network.answers.append((self.network.requests.popleft(), answer(code)))

    def fail_after(self) -> None:
        self._serve_and_answer(ErrorCode.not_leader_or_follower)

    def not_know(self) -> None:
        self._serve_and_answer(ErrorCode.unknown_server_error)

    def _serve_and_answer(self, code: ErrorCode) -> None:
        if self.network.requests:
            batch = self.network.requests.popleft()
            self.network.answers.append((batch, self.partition.append_and_fail(batch, code)))

    def receive(self) -> None:
        if self.network.answers:
            batch, said = self.network.answers.popleft()
            self.happen(self.stream.answered(batch, said, self.now))

    def receive_all(self) -> None:
        while self.network.answers:
            self.receive()

    def lose(self) -> None:
        for batch in self.network.breaks():
            self.happen(self.stream.lost(batch, ConnectionLost("broken"), self.now))

    def serve_stale(self) -> None:
        if self.network.stale:
            self.partition.append(self.network.stale.popleft())

    def wait(self) -> None:
        self.now += LONGEST_PAUSE

    def restart(self) -> None:
        self.partition.restart()
        self.restarted = True

    def fence(self) -> None:
        self.partition.rival()
        self.fenced = True

    def be_forgotten(self) -> None:
        if not self.open and not self.network.stale:
            self.now += PAUSE_SECONDS
            self.partition.forget()

    def happen(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Acknowledged(batch, base_offset):
                    self.come_back(batch)
                    self.acknowledged[batch] = base_offset
                case Rejected(batch):
                    self.come_back(batch)
                    self.rejected.add(batch)
                case Unsettled():
                    self.look_for(event)

    def come_back(self, batch: Batch) -> None:
        assert batch not in self.acknowledged
        assert batch not in self.rejected | self.found
        del self.open[batch]

    def look_for(self, unsettled: Unsettled) -> None:
        """As an agent does it, when nothing is on its way any more."""
        self.check_reason(unsettled)
        assert self.stream.halted
        while self.network.stale:
            self.serve_stale()
        for each in unsettled.batches:
            assert each is next(iter(self.open.values()))
            self.come_back(each.batch)
        # What else was sent once is known not to be there, and waits for new numbers.
        assert not self.open.keys() & self.partition.offsets.keys()
        self.open.clear()
        there = {each.batch for each in unsettled.batches if each.batch in self.partition.offsets}
        self.found |= there
        absent = [each.batch for each in unsettled.batches if each.batch not in there]
        if self.lent is not None:
            self.lent = self.lent._replace(epoch=self.lent.epoch + 2)  # beyond a rival's
        self.stream.renew(self.lent, first=absent)

    def check_reason(self, unsettled: Unsettled) -> None:
        """A caller is not troubled with what the stream can know by itself."""
        assert isinstance(unsettled.error, Refused)
        code = unsettled.error.code
        if code is ErrorCode.out_of_order_sequence_number:
            assert self.restarted or self.fenced
        if code is ErrorCode.invalid_producer_epoch:
            assert self.fenced

    def check(self) -> None:
        numbers = [self.submitted.index(batch) for batch in self.partition.offsets]
        assert numbers == sorted(numbers)
        assert not self.partition.twice
        assert len(self.open) <= 5
        assert not self.rejected & self.partition.offsets.keys()
        for batch, offset in self.acknowledged.items():
            assert offset == self.partition.offsets[batch]

    def settle(self) -> None:
        """All goes well from now on."""
        for _ in range(500):
            if not len(self.stream):
                break
            self.serve_all()
            self.receive_all()
            self.wait()
            self.send()
        assert not self.open
        in_log = [batch for batch in self.submitted if batch not in self.rejected]
        assert list(self.partition.offsets) == in_log
        assert self.found | self.acknowledged.keys() == set(in_log)


@pytest.mark.parametrize("numbering", [Numbering.OWN, Numbering.LENT])
@settings(max_examples=settings().max_examples * 2)
@given(actions=st.lists(st.sampled_from(ACTIONS), min_size=40, max_size=80))
def test_every_batch_once_and_in_order(numbering: Numbering, actions: list[str]) -> None:
    world = World(numbering)
    for action in actions:
        getattr(world, action)()
        world.send()
        world.check()
    world.settle()
    world.check()
