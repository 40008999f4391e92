"""One client's connection: bytes in, requests dispatched in order, responses out in order.

Rule 1: responses leave in the order of their requests. A request that cannot be answered yet holds
        a `Reply`; those behind it wait.
Rule 2: a client that does not read its responses, or sends faster than it is served, is not read
        from any more. What it can make the broker hold is bounded by `Limits`.
Rule 3: only the event loop's thread touches a connection.

The event loop only says when the socket is ready; receiving, `send` and `sendfile` are done
here, because that is where bytes and file slices are known apart.
"""

import asyncio
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from broker.caller import Caller
from broker.config import Limits
from wire.errors import ProtocolError
from wire.frames import FrameMemory, FrameReader, SizeLimit
from wire.primitives import Part
from wire.slices import FileSlice

log = logging.getLogger(__name__)

_BYTES_A_SEND = 64 * 1024
_SLOWEST_BYTES_PER_SECOND = 16 * 1024
_LONGEST_TURN = 0.004  # seconds; then others are served before this client's next request


class Reply:
    """The answer to one request, now or later; `parts` is None until it is known."""

    __slots__ = ("connection", "parts")

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.parts: list[Part] | None = None

    def send(self, parts: list[Part]) -> None:
        """Answer. Does nothing if the client has gone."""
        self.parts = parts
        self.connection.send_soon()


class Dispatch(Protocol):
    """Serves a request: with `connection.send`, or `connection.reply` and its answer later."""

    def __call__(self, connection: "Connection", frame: memoryview) -> None: ...


class Connection:
    """The state of one client. `closed` runs once, when it is over."""

    __slots__ = (
        "_closed", "_cut", "_dispatch", "_exclusive", "_frames", "_limits", "_loop", "_memory",
        "_outgoing", "_reading", "_replies", "_request_began", "_sending_soon", "_sock",
        "_unsent", "_writing", "caller", "last_active", "open", "peer",
    )  # fmt: skip

    def __init__(
        self,
        sock: socket.socket,
        peer: str,
        caller: Caller,
        dispatch: Dispatch,
        closed: Callable[["Connection"], None],
        *,
        loop: asyncio.AbstractEventLoop,
        scratch: memoryview,
        memory: FrameMemory,
        size_limit: SizeLimit,
        limits: Limits,
    ) -> None:
        self.peer = peer  # for people who read the log
        self.caller = caller
        self.open = True
        self.last_active = loop.time()
        self._request_began = 0.0  # since when the rest of a request is waited for, or 0
        self._sock = sock
        self._dispatch = dispatch
        self._closed = closed
        self._loop = loop
        self._limits = limits
        self._memory = memory
        self._frames = FrameReader(scratch, memory, size_limit)
        self._cut: Iterator[memoryview] | None = None  # requests received and not served yet
        self._replies: deque[Reply] = deque()
        self._exclusive = False  # the last request must be answered before the next is looked at
        self._outgoing: deque[Part] = deque()
        self._unsent = 0  # bytes in _outgoing that occupy memory
        self._sending_soon = False
        self._writing = False
        self._reading = False
        self._read_on()

    # Requests

    def send(self, parts: list[Part]) -> None:
        """Answer the request that is being dispatched, at once."""
        if self._replies:
            reply = Reply(self)
            reply.parts = parts
            self._replies.append(reply)
        else:
            self._queue(parts)

    def reply(self, *, exclusive: bool = False) -> Reply:
        """A place for the answer to the request that is being dispatched, to be given later.

        With `exclusive`, no further request of this client is served before that.
        """
        reply = Reply(self)
        self._replies.append(reply)
        self._exclusive = exclusive
        return reply

    def send_soon(self) -> None:
        """Some reply is known. One flush answers many requests: send them all at once."""
        if not self._sending_soon:
            self._sending_soon = True
            self._loop.call_soon(self._send_replies)

    def _send_replies(self) -> None:
        self._sending_soon = False
        if not self.open:
            return
        while self._replies and (parts := self._replies[0].parts) is not None:
            self._replies.popleft()
            self._queue(parts)
        if not self._replies:
            self._exclusive = False
        self._write()
        self._go_on()

    def _readable(self) -> None:
        try:
            targets = self._frames.targets()
            if len(targets) == 1:
                count = self._sock.recv_into(targets[0])
            else:
                count = self._sock.recvmsg_into(targets)[0]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(f"error={error.strerror!r}")
            return
        if count == 0:
            self.close()
            return
        self.last_active = self._loop.time()
        self._serve(self._frames.received(count))

    def _serve(self, cut: Iterator[memoryview]) -> None:
        """Dispatch requests until there are no more, or until this client must wait."""
        self._cut = None
        turn_ends = time.perf_counter() + _LONGEST_TURN
        try:
            for frame in cut:
                self._dispatch(self, frame)
                if not self.open:
                    return
                turn_is_over = time.perf_counter() > turn_ends
                if turn_is_over or self._congested():
                    self._write()
                    if not self.open:
                        return
                    if turn_is_over:
                        self._loop.call_soon(self._go_on)
                    if turn_is_over or self._congested():
                        self._wait(cut)
                        return
        except ProtocolError as error:
            self.close(f"error={str(error)!r}")
            return
        if self._outgoing:
            self._write()
        if not self._frames.partial:
            self._request_began = 0.0
        elif not self._request_began:
            self._request_began = self.last_active
        if self._frames.starved:
            self._read_no_more()
            self._memory.wait(self._granted)

    def _wait(self, cut: Iterator[memoryview]) -> None:
        self._cut = cut
        self._read_no_more()
        if not self._frames.suspend():
            self.close("error='too many requests are waiting, and there is no memory for more'")

    def _go_on(self) -> None:
        """Serve what waits, once this client may go on."""
        if not self.open or self._congested():
            return
        if self._cut is not None:
            self._serve(self._cut)
        if self._cut is None and not self._frames.starved:
            self._read_on()

    def _granted(self) -> bool:
        if self.open:
            if not self._frames.grant():
                return False
            self._go_on()
        return True

    def _congested(self) -> bool:
        return (
            self._exclusive
            or self._unsent > self._limits.unsent_response_bytes
            or len(self._replies) >= self._limits.requests_per_connection
            or len(self._outgoing) >= 4 * self._limits.requests_per_connection
        )

    def _read_on(self) -> None:
        if self.open and not self._reading:
            self._reading = True
            self._loop.add_reader(self._sock.fileno(), self._readable)
            if self._frames.partial:
                self._request_began = self._loop.time()

    def _read_no_more(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._sock.fileno())
            self._request_began = 0.0  # it is not the client who stalls

    # Responses

    def _queue(self, parts: list[Part]) -> None:
        for part in parts:
            self._outgoing.append(part)
            if not isinstance(part, FileSlice):
                self._unsent += len(part)

    def _writable(self) -> None:
        self._write()
        self._go_on()

    def _write(self) -> None:
        """Send as much as the socket takes; ask to be called again if that was not all."""
        outgoing = self._outgoing
        try:
            while outgoing:
                first = outgoing[0]
                if isinstance(first, FileSlice):
                    done = self._send_slice(first)
                else:
                    done = self._send_bytes()
                if not done:
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.close(f"error={error.strerror!r}")
            return
        self.last_active = self._loop.time()
        if outgoing and not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock.fileno(), self._writable)
        elif not outgoing and self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock.fileno())

    def _send_bytes(self) -> bool:
        """Send the bytes at the head of the queue; False if the socket is full."""
        outgoing = self._outgoing
        buffers: list[bytes | bytearray | memoryview] = []
        flags = size = 0
        while outgoing and size < _BYTES_A_SEND:
            part = outgoing[0]
            if isinstance(part, FileSlice):
                flags = socket.MSG_MORE  # one packet with the beginning of the file
                break
            buffers.append(part)
            size += len(part)
            outgoing.popleft()
        # Many small responses: one buffer costs the kernel a quarter of what their list does.
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        try:
            sent = self._sock.send(data, flags)
        except (BlockingIOError, InterruptedError):
            sent = 0
        self._unsent -= sent
        if sent < size:
            outgoing.appendleft(memoryview(data)[sent:])
            return False
        return True

    def _send_slice(self, piece: FileSlice) -> bool:
        """Send from a file; False if the socket is full."""
        sent = os.sendfile(self._sock.fileno(), piece.file.fileno(), piece.position, piece.length)
        if sent == 0:
            # The response said how much would follow; there is no way to take that back.
            self.close("error='a segment is shorter than it was when the response began'")
            return False
        if sent < piece.length:
            self._outgoing[0] = FileSlice(piece.file, piece.position + sent, piece.length - sent)
            return True
        self._outgoing.popleft()
        return True

    # The end

    @property
    def idle(self) -> bool:
        """Whether nothing is owed to the client."""
        return not (self._replies or self._outgoing or self._cut)

    def stop_reading(self) -> None:
        """Serve no further request; replies that are owed are still sent."""
        self._read_no_more()
        self._exclusive = True

    def check_progress(self, now: float) -> None:
        """Close the connection if its client has stalled in the middle of something."""
        if self._request_began:
            allowed = self._frames.held / _SLOWEST_BYTES_PER_SECOND
            if now - self._request_began > self._limits.stalled_request_seconds + allowed:
                self.close("error='a request was begun and not finished'")
                return
        if now - self.last_active > self._limits.idle_connection_seconds and not self._replies:
            self.close("reason=idle" if self.idle else "error='responses are not read'")

    def close(self, why: str = "") -> None:
        """Let go of everything; `why` is logged unless the client just left."""
        if not self.open:
            return
        self.open = False
        if why:
            log.warning("connection closed client=%s %s", self.peer, why)
        self._read_no_more()
        if self._writing:
            self._loop.remove_writer(self._sock.fileno())
        self._memory.forget(self._granted)
        cut, self._cut = self._cut, None
        if cut is not None and hasattr(cut, "close"):
            cut.close()
        self._frames.close()
        self._replies.clear()
        self._outgoing.clear()
        self._sock.close()
        self._closed(self)
