"""Agents by the thousand, as a broker sees them: each has a connection, sends a batch of lines each
second and as much as an entry of the ledger every ten, and waits for both to be acknowledged.

A process plays a thousand of them. They do not begin their seconds together. The clock of a request
starts when it is due, whether or not the player was held up, and no request waits for the answer to
the one before.
"""

import array
import contextlib
import gc
import itertools
import multiprocessing
import resource
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

import msgspec

from bench.loads.acknowledged_load import Acknowledged
from bench.loads.librdkafka import Incomplete
from bench.loads.requests import AnswerError, api_versions_request, produce_request, record_batch

LINES: Final = 10  # in a batch
EVERY_S: Final = 1.0  # a batch
TOLD_EVERY_S: Final = 10.0  # what was shipped
_EACH: Final = 1_000  # agents of a process
_ALL: Final = -1  # acks
_ENTRY: Final = 2  # lines: as long as an entry is, about
_PATIENCE: Final = 120.0
_LINES: Final = record_batch(LINES)
_SAID: Final = record_batch(_ENTRY)


class Written(NamedTuple):
    """Where agents write to."""

    topics: Sequence[str]
    partitions: int  # of each
    ledger: str


class _Batches(msgspec.Struct, frozen=True):
    """The requests of an agent. All say the same lines."""

    lines: bytes
    entry: bytes

    @staticmethod
    def of(agent: int, written: Written) -> "_Batches":
        topic = written.topics[agent % len(written.topics)]
        partition = agent // len(written.topics) % written.partitions
        told = agent % written.partitions
        return _Batches(
            produce_request(topic, partition, _LINES, _ALL),
            produce_request(written.ledger, told, _SAID, _ALL),
        )


class _Agent:
    def __init__(self, connection: socket.socket, batches: _Batches) -> None:
        self.connection = connection
        self.batches = batches
        self.waiting: deque[int] = deque()  # when those were due that are not answered
        self._received = b""

    def send(self, request: bytes, due: int) -> None:
        self.connection.sendall(request)
        self.waiting.append(due)

    def answered(self) -> Iterator[int]:
        """When those were due that are answered now."""
        received = self.connection.recv(65536)
        if not received:
            raise AnswerError("the broker closed the connection of an agent")
        data = self._received + received
        at = 0
        while len(data) - at >= 4 and len(data) - at >= (size := 4 + _number(data, at)):
            _check(data[at : at + size])
            yield self.waiting.popleft()
            at += size
        self._received = data[at:]


def _number(data: bytes, at: int) -> int:
    (number,) = struct.unpack_from(">i", data, at)
    return int(number)


def _check(answer: bytes) -> None:
    """Of Produce v7: one topic, one partition."""
    (name,) = struct.unpack_from(">h", answer, 12)
    (error,) = struct.unpack_from(">h", answer, 14 + name + 8)
    if error:
        raise AnswerError(f"a batch of an agent was answered with error {error}")


class _Player:
    """Some agents. What is due next is known beforehand: it comes again and again."""

    def __init__(self, port: int, agents: range, written: Written) -> None:
        self._answered = array.array("q")
        self._sent = array.array("q")
        self._agents = [
            _Agent(_connected(port, agents.start // _EACH), _Batches.of(each, written))
            for each in agents
        ]

    def play(self, stopped: Callable[[], bool]) -> Acknowledged:
        with selectors.EpollSelector() as selector:
            for each in self._agents:
                selector.register(each.connection, selectors.EVENT_READ, each)
            for due, agent, request in _schedule(self._agents, time.monotonic_ns()):
                while (left := due - time.monotonic_ns()) > 0:
                    self._receive(selector, left / 1e9)
                if stopped():
                    break
                self._sent.extend((due, time.monotonic_ns() - due))
                agent.send(request, due)
            until = time.monotonic() + _PATIENCE
            while any(each.waiting for each in self._agents):
                if time.monotonic() > until:
                    raise Incomplete("agents wait for an acknowledgement")
                self._receive(selector, 0.1)
        return Acknowledged(self._answered, self._sent)

    def _receive(self, selector: selectors.BaseSelector, seconds: float) -> None:
        for key, _ in selector.select(seconds):
            for due in key.data.answered():
                self._answered.extend((due, time.monotonic_ns() - due))

    def close(self) -> None:
        for each in self._agents:
            each.connection.close()


def _schedule(agents: Sequence[_Agent], began: int) -> Iterator[tuple[int, _Agent, bytes]]:
    """When which agent sends what, without an end."""
    apart = int(EVERY_S * 1e9) // len(agents)
    rounds = int(TOLD_EVERY_S / EVERY_S)
    for at in itertools.count():
        for number, agent in enumerate(agents):
            due = began + (at * len(agents) + number) * apart
            yield due, agent, agent.batches.lines
            if at % rounds == number % rounds:
                yield due, agent, agent.batches.entry


def _connected(port: int, player: int) -> socket.socket:
    """From an address of the player's: a broker lets nobody have all of its connections."""
    source = f"127.0.1.{1 + player}", 0
    connection = socket.create_connection(("127.0.0.1", port), _PATIENCE, source)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(api_versions_request())
    size = _number(connection.recv(4, socket.MSG_WAITALL), 0)
    connection.recv(size, socket.MSG_WAITALL)
    return connection


def _serve(port: int, agents: range, written: Written, pipe: Connection) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
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
    """All of them are connected, and write from now on until what this yields is called."""
    context = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    players = []

    def told() -> list[object]:
        answers: list[object] = [each.recv() for each in pipes]
        for answer in answers:
            if isinstance(answer, Incomplete):
                raise answer
        return answers

    def end() -> Acknowledged:
        done = Acknowledged(array.array("q"), array.array("q"))
        for each in pipes:
            each.send(None)
        for answer in told():
            assert isinstance(answer, Acknowledged)
            done.answered.extend(answer.answered)
            done.sent.extend(answer.sent)
        return done

    try:
        for first in range(0, agents, _EACH):
            ours, theirs = multiprocessing.Pipe()
            some = range(first, min(agents, first + _EACH))
            player = context.Process(target=_serve, args=(port, some, written, theirs), daemon=True)
            player.start()
            theirs.close()
            pipes.append(ours)
            players.append(player)
        told()
        for each in pipes:
            each.send(None)
        yield end
    except EOFError:
        raise Incomplete("a player has ended by itself") from None
    finally:
        for each in pipes:
            each.close()
        for player in players:
            player.kill()
            player.join()
