"""Links between processes on loopback that can be cut, reset and slowed: a proxy to an address.

A link stands before one target. Who connects is told by whose socket it is, if the processes that
may are known (`owner_of`), so that one pair can be cut and others left alone. What is cut is like a
cable that is out: connections stay open and say nothing, and what was sent arrives when the cable
is back. What is reset ends at once, and nobody gets in.

Sockets are our own from the moment they are there, and not asyncio's streams: those forget one that
was just accepted when they are told to end, and leave it open.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from harness.open_files import open_files

ANYBODY: Final = "anybody"
_CHUNK: Final = 16 * 1024
_BACKLOG: Final = 128
_AT_ONCE: Final = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a reset


class _State(msgspec.Struct):
    """What those meet who come from one place."""

    passable: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    refusing: bool = False
    delay: float = 0.0
    connections: set[asyncio.Task[None]] = set()

    def __post_init__(self) -> None:
        self.passable.set()


class Links:
    """All links of a cluster, moved by one thread; `close` ends them and their connections."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()
        self._links: list[Link] = []

    def add(
        self, target: tuple[str, int], port: int, who: Callable[[int], str] | None = None
    ) -> "Link":
        """One more, that listens on `port`. `who` says for a peer's port where it comes from."""
        link = Link(self, target, port, who)
        self.do(link.listen())
        self._links.append(link)
        return link

    def do(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Runs it on the links' own thread."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def close(self) -> None:
        for link in self._links:
            self.do(link.end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Link:
    """What connects to `address` reaches the target."""

    def __init__(
        self,
        links: Links,
        target: tuple[str, int],
        port: int,
        who: Callable[[int], str] | None,
    ) -> None:
        self._links, self._target, self._who = links, target, who
        self.port = port
        self._states: dict[str, _State] = {}
        self._listener: socket.socket | None = None
        self._sockets: set[socket.socket] = set()  # of all connections, on both sides

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self, source: str = ANYBODY) -> None:
        """Nothing gets through, and nobody is told."""
        self._links.do(self._cut(source))

    def reset(self, source: str = ANYBODY) -> None:
        """Connections end, and whoever comes is turned away."""
        self._links.do(self._reset(source))

    def slow(self, seconds: float, source: str = ANYBODY) -> None:
        """Each piece of 16 KiB at most waits so long, one after the other."""
        self._links.do(self._slow(source, seconds))

    def mend(self) -> None:
        """Everything is as it should be."""
        self._links.do(self._mend())

    async def listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=_BACKLOG)
        self._listener.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listener, self._accept, loop, self._listener)

    async def end(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for state in self._states.values():
            await _cancelled(state.connections)
        for each in self._sockets:  # of those that were cancelled before they began
            each.close()
        self._sockets.clear()

    def _state(self, source: str) -> _State:
        return self._states.setdefault(source, _State())

    async def _cut(self, source: str) -> None:
        self._state(source).passable.clear()

    async def _reset(self, source: str) -> None:
        state = self._state(source)
        state.refusing = True
        await _cancelled(state.connections)

    async def _slow(self, source: str, seconds: float) -> None:
        self._state(source).delay = seconds

    async def _mend(self) -> None:
        for state in self._states.values():
            state.refusing, state.delay = False, 0.0
            state.passable.set()

    # Connections

    def _accept(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        """Who comes is ours before anything else happens on this thread."""
        try:
            here, peer = listener.accept()
        except OSError:
            return  # who came has gone again
        self._own(here)
        state = self._state(self._who(peer[1]) if self._who else ANYBODY)
        task = loop.create_task(self._connected(here, state))
        state.connections.add(task)
        task.add_done_callback(state.connections.discard)

    def _own(self, one: socket.socket) -> None:
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets.add(one)

    async def _connected(self, here: socket.socket, state: _State) -> None:
        loop = asyncio.get_running_loop()
        beyond = socket.socket()
        self._own(beyond)
        try:
            # As a SYN that nobody answers, as far as can be told from inside a connection.
            await state.passable.wait()
            if not state.refusing:
                await loop.sock_connect(beyond, self._target)
                await self._both_ways(here, beyond, state)
        except (OSError, asyncio.CancelledError):
            pass  # Who stands behind is down, or all is over: the connection ends.
        finally:
            for each in (here, beyond):
                if state.refusing:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                self._sockets.discard(each)
                each.close()

    async def _both_ways(self, here: socket.socket, beyond: socket.socket, state: _State) -> None:
        """Until one of the two ends it."""
        ways = {
            asyncio.create_task(_pump(here, beyond, state)),
            asyncio.create_task(_pump(beyond, here, state)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(ways)


async def _pump(one: socket.socket, other: socket.socket, state: _State) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while data := await loop.sock_recv(one, _CHUNK):
            if state.delay:
                await asyncio.sleep(state.delay)
            await state.passable.wait()
            await loop.sock_sendall(other, data)


async def _cancelled(tasks: set[asyncio.Task[None]]) -> None:
    """All of them are over, so that the event loop has let go of their sockets."""
    ending = tuple(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def owner_of(port: int, processes: dict[str, int]) -> str:
    """Which of the processes, given by name and id, has a socket of loopback on this port."""
    wanted = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}:{port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    inodes = {words[9] for words in map(str.split, lines) if words[1] == wanted}
    links = {f"socket:[{inode}]" for inode in inodes}
    for name, pid in processes.items():
        with contextlib.suppress(OSError):
            if any(str(held) in links for held in open_files(pid).values()):
                return name
    return ANYBODY
