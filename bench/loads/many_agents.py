"""Thousands of agents, as a broker sees them.

Each agent has a connection, sends a batch of lines every second and the size of a ledger entry
every ten, and waits for both acknowledgements. A process plays a thousand agents, whose seconds are
evenly staggered. A request's clock starts at its scheduled time, even if the player is late, and no
request waits for the answer to the one before.
"""

import array
import contextlib
import gc
import itertools
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from types import NoneType
from typing import Final, NamedTuple

import msgspec

from bench.loads.acknowledged_load import Acknowledged
from bench.loads.child_process import allow_most_open_files, child_process, receive
from bench.loads.librdkafka import Incomplete
from bench.loads.requests import AnswerError, api_versions_request, produce_request, record_batch

LINES: Final = 10  # in a batch
EVERY_S: Final = 1.0  # between batches
ENTRY_EVERY_S: Final = 10.0  # between ledger entries
_PER_PROCESS: Final = 1_000  # agents
_ALL: Final = -1  # acks
_ENTRY: Final = 2  # lines, about the size of an entry
_PATIENCE: Final = 120.0
_LINES: Final = record_batch(LINES)
_ENTRY_BATCH: Final = record_batch(_ENTRY)


class Written(NamedTuple):
    """The topics that agents write to."""

    topics: Sequence[str]
    partitions: int  # of each
    ledger: str


class _Batches(msgspec.Struct, frozen=True):
    """The requests of one agent, which are always the same."""

    lines: bytes
    entry: bytes

    @staticmethod
    def of(agent: int, written: Written) -> "_Batches":
        topic = written.topics[agent % len(written.topics)]
        partition = agent // len(written.topics) % written.partitions
        ledger_partition = agent % written.partitions
        return _Batches(
            produce_request(topic, partition, _LINES, _ALL),
            produce_request(written.ledger, ledger_partition, _ENTRY_BATCH, _ALL),
        )


class _Agent:
    def __init__(self, connection: socket.socket, batches: _Batches) -> None:
        self.connection = connection
        self.batches = batches
        self.waiting: deque[int] = deque()  # scheduled times of unanswered requests
        self._received = b""

    def send(self, request: bytes, due_time: int) -> None:
        self.connection.sendall(request)
        self.waiting.append(due_time)

    def answered(self) -> Iterator[int]:
        """Receives answers; yields the scheduled times of their requests."""
        buffer = self.connection.recv(65536)
        if not buffer:
            raise AnswerError("the broker closed the connection of an agent")
        data = self._received + buffer
        position = 0
        while len(data) - position >= 4 and len(data) - position >= (
            size := 4 + _number(data, position)
        ):
            _check(data[position : position + size])
            yield self.waiting.popleft()
            position += size
        self._received = data[position:]


def _number(data: bytes, position: int) -> int:
    (number,) = struct.unpack_from(">i", data, position)
    return int(number)


def _check(answer: bytes) -> None:
    """Check an answer to Produce v7 for one topic and one partition."""
    (name,) = struct.unpack_from(">h", answer, 12)
    (error,) = struct.unpack_from(">h", answer, 14 + name + 8)
    if error:
        raise AnswerError(f"Produce failed with error {error}")


class _Player:
    """Plays several agents on a fixed schedule."""

    def __init__(self, port: int, agents: range, written: Written) -> None:
        self._answered = array.array("q")
        self._sent = array.array("q")
        self._agents = [
            _Agent(_connected(port, agents.start // _PER_PROCESS), _Batches.of(agent, written))
            for agent in agents
        ]

    def play(self, stopped: Callable[[], bool]) -> Acknowledged:
        with selectors.EpollSelector() as selector:
            for agent in self._agents:
                selector.register(agent.connection, selectors.EVENT_READ, agent)
            for due_time, agent, request in _schedule(self._agents, time.monotonic_ns()):
                while (pause := due_time - time.monotonic_ns()) > 0:
                    self._receive(selector, pause / 1e9)
                if stopped():
                    break
                self._sent.extend((due_time, time.monotonic_ns() - due_time))
                agent.send(request, due_time)
            end_time = time.monotonic() + _PATIENCE
            while any(agent.waiting for agent in self._agents):
                if time.monotonic() > end_time:
                    raise Incomplete("agents still wait for acknowledgements")
                self._receive(selector, 0.1)
        return Acknowledged(self._answered, self._sent)

    def _receive(self, selector: selectors.BaseSelector, seconds: float) -> None:
        for key, _ in selector.select(seconds):
            for due_time in key.data.answered():
                self._answered.extend((due_time, time.monotonic_ns() - due_time))

    def close(self) -> None:
        for agent in self._agents:
            agent.connection.close()


def _schedule(agents: Sequence[_Agent], began: int) -> Iterator[tuple[int, _Agent, bytes]]:
    """The scheduled times of agents' requests, endlessly."""
    gap = int(EVERY_S * 1e9) // len(agents)
    rounds = int(ENTRY_EVERY_S / EVERY_S)
    for second in itertools.count():
        for number, agent in enumerate(agents):
            due_time = began + (second * len(agents) + number) * gap
            yield due_time, agent, agent.batches.lines
            if second % rounds == number % rounds:
                yield due_time, agent, agent.batches.entry


def _connected(port: int, player: int) -> socket.socket:
    """Connect from the player's own address: brokers limit connections per address."""
    source = f"127.0.1.{1 + player}", 0
    connection = socket.create_connection(("127.0.0.1", port), _PATIENCE, source)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(api_versions_request())
    size = _number(connection.recv(4, socket.MSG_WAITALL), 0)
    connection.recv(size, socket.MSG_WAITALL)
    return connection


def _serve(port: int, agents: range, written: Written, pipe: Connection) -> None:
    allow_most_open_files()
    try:
        player = _Player(port, agents, written)
        pipe.send(None)
        pipe.recv()
        gc.disable()
        pipe.send(player.play(pipe.poll))
        player.close()
    except (AnswerError, Incomplete, OSError, struct.error) as failed:
        pipe.send(Incomplete(f"{type(failed).__name__}: {failed}"))


@contextlib.contextmanager
def playing(port: int, agents: int, written: Written) -> Iterator[Callable[[], Acknowledged]]:
    """Connects all agents, which write until the function that it yields is called."""
    pipes: list[Connection] = []

    def end() -> Acknowledged:
        result = Acknowledged(array.array("q"), array.array("q"))
        for pipe in pipes:
            pipe.send(None)
        for answer in [receive(pipe, Acknowledged) for pipe in pipes]:
            result.answered.extend(answer.answered)
            result.sent.extend(answer.sent)
        return result

    with ExitStack() as stack:
        for first in range(0, agents, _PER_PROCESS):
            agent_range = range(first, min(agents, first + _PER_PROCESS))
            pipes.append(stack.enter_context(child_process(_serve, port, agent_range, written)))
        try:
            for pipe in pipes:
                receive(pipe, NoneType)
            for pipe in pipes:
                pipe.send(None)
            yield end
        except EOFError:
            raise Incomplete("a player's process ended early") from None
