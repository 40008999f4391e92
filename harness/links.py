"""Links between processes on loopback that can be cut, reset and slowed: a proxy to an address.

A link stands before one target. Who connects is told by whose socket it is, if the processes that
may are known (`owner_of`), so that one pair can be cut and others left alone. What is cut is like a
cable that is out: connections stay open and say nothing, and what was sent arrives when the cable
is back. What is reset ends at once, and nobody gets in.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

ANYBODY: Final = "anybody"
_CHUNK: Final = 16 * 1024


@dataclass(slots=True)
class _State:
    """What those meet who come from one place."""

    passable: asyncio.Event = field(default_factory=asyncio.Event)
    refusing: bool = False
    delay: float = 0.0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

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
        self.do(_end_others())
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
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()

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
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def end(self) -> None:
        assert self._server is not None
        self._server.close()
        for pump in tuple(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def _state(self, source: str) -> _State:
        return self._states.setdefault(source, _State())

    async def _cut(self, source: str) -> None:
        self._state(source).passable.clear()

    async def _reset(self, source: str) -> None:
        state = self._state(source)
        state.refusing = True
        for writer in tuple(state.writers):
            writer.transport.abort()

    async def _slow(self, source: str, seconds: float) -> None:
        self._state(source).delay = seconds

    async def _mend(self) -> None:
        for state in self._states.values():
            state.refusing, state.delay = False, 0.0
            state.passable.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        source = self._who(peer[1]) if self._who and peer else ANYBODY
        state = self._state(source)
        task = asyncio.current_task()
        assert task is not None
        self._pumps.add(task)
        both = {writer}
        state.writers.add(writer)
        try:
            # As a SYN that nobody answers, as far as can be told from inside a connection.
            await state.passable.wait()
            if state.refusing:
                return
            beyond = await asyncio.open_connection(*self._target)
            both.add(beyond[1])
            state.writers.add(beyond[1])
            there = asyncio.create_task(_pump(reader, beyond[1], state))
            back = asyncio.create_task(_pump(beyond[0], writer, state))
            try:
                await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                there.cancel()
                back.cancel()
                await asyncio.gather(there, back, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # Who stands behind is down, or all is over: the connection ends.
        finally:
            for each in both:
                each.transport.abort()
            state.writers -= both
            self._pumps.discard(task)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, state: _State) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            if state.delay:
                await asyncio.sleep(state.delay)
            await state.passable.wait()
            writer.write(data)
            await writer.drain()


async def _end_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for _ in range(3):  # Sockets are closed in turns after the one in which that was asked for.
        await asyncio.sleep(0)


def owner_of(port: int, processes: dict[str, int]) -> str:
    """Which of the processes, given by name and id, has a socket of loopback on this port."""
    wanted = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}:{port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    inodes = {words[9] for words in map(str.split, lines) if words[1] == wanted}
    links = {f"socket:[{inode}]" for inode in inodes}
    for name, pid in processes.items():
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(descriptor.readlink()) in links:
                        return name
    return ANYBODY
