"""Links between processes on loopback that can be cut, reset and slowed: a proxy to an address.

A link is in front of one target. If the possible clients are known, it identifies each by its
socket's owner (`owner_of`), so that one pair can be cut while others work. Cutting is like
unplugging a cable: connections stay open and silent, and what was sent arrives once the cable is
back. A reset ends connections at once, and refuses new ones.

Links own their sockets from the first moment, and do not use asyncio's streams, which forget a
socket that was just accepted when they are cancelled, and leave it open.
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

from harness.processes.open_files import open_files

ANYBODY: Final = "anybody"
_CHUNK: Final = 16 * 1024
_BACKLOG: Final = 128
_AT_ONCE: Final = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a reset


class _State(msgspec.Struct):
    """The state of the link for clients of one origin."""

    passable: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    refusing: bool = False
    delay: float = 0.0
    connections: set[asyncio.Task[None]] = set()

    def __post_init__(self) -> None:
        self.passable.set()


class Links:
    """All links of a cluster, on one thread; `close` ends them and their connections."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()
        self._links: list[Link] = []

    def add(
        self, target: tuple[str, int], port: int, who: Callable[[int], str] | None = None
    ) -> "Link":
        """Adds a link that listens on `port`. `who` maps a client's port to its origin."""
        link = Link(self, target, port, who)
        self.do(link.listen())
        self._links.append(link)
        return link

    def do(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Runs a function on the thread of the links."""
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
    """Forwards connections from `address` to the target."""

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
        """Stops all traffic without closing connections."""
        self._links.do(self._cut(source))

    def reset(self, source: str = ANYBODY) -> None:
        """Resets all connections, and refuses new ones."""
        self._links.do(self._reset(source))

    def slow(self, seconds: float, source: str = ANYBODY) -> None:
        """Delays each piece of at most 16 KiB by this many seconds, one piece after the other."""
        self._links.do(self._slow(source, seconds))

    def mend(self) -> None:
        """Restores normal operation."""
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
        for sock in self._sockets:  # of tasks that were cancelled before they started
            sock.close()
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
        """Takes ownership of the socket before anything else happens on this thread."""
        try:
            client, peer = listener.accept()
        except OSError:
            return  # the client has gone
        self._own(client)
        state = self._state(self._who(peer[1]) if self._who else ANYBODY)
        task = loop.create_task(self._connected(client, state))
        state.connections.add(task)
        task.add_done_callback(state.connections.discard)

    def _own(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets.add(sock)

    async def _connected(self, client: socket.socket, state: _State) -> None:
        loop = asyncio.get_running_loop()
        server = socket.socket()
        self._own(server)
        try:
            # Like an unanswered SYN, as far as a connection can show.
            await state.passable.wait()
            if not state.refusing:
                await loop.sock_connect(server, self._target)
                await self._both_ways(client, server, state)
        except (OSError, asyncio.CancelledError):
            pass  # The target is down, or the link is closing: the connection ends.
        finally:
            for sock in (client, server):
                if state.refusing:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                self._sockets.discard(sock)
                sock.close()

    async def _both_ways(self, client: socket.socket, server: socket.socket, state: _State) -> None:
        """Copies both ways until one side ends."""
        pipes = {
            asyncio.create_task(_pump(client, server, state)),
            asyncio.create_task(_pump(server, client, state)),
        }
        try:
            await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(pipes)


async def _pump(source: socket.socket, target: socket.socket, state: _State) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while data := await loop.sock_recv(source, _CHUNK):
            if state.delay:
                await asyncio.sleep(state.delay)
            await state.passable.wait()
            await loop.sock_sendall(target, data)


async def _cancelled(tasks: set[asyncio.Task[None]]) -> None:
    """Cancels all tasks and waits, so that the event loop has released their sockets."""
    ending = tuple(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def owner_of(port: int, processes: dict[str, int]) -> str:
    """Returns which of `processes` owns the loopback socket with this port; ANYBODY if none of them
    does."""
    local_address = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}:{port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    inodes = {words[9] for words in map(str.split, lines) if words[1] == local_address}
    links = {f"socket:[{inode}]" for inode in inodes}
    for name, pid in processes.items():
        with contextlib.suppress(OSError):
            if any(str(socket_name) in links for socket_name in open_files(pid).values()):
                return name
    return ANYBODY
