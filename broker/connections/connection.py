"""One client's connection: bytes in, requests served in order, responses out in order.

Rule 1: responses leave in the order of their requests. A request that cannot be answered yet holds
        a `Reply`; those behind it wait.
Rule 2: a client that does not read its responses, or sends faster than it is served, is not read
        from any more. What it can make the broker hold is bounded by `BrokerLimits`.
Rule 3: no client keeps the event loop to itself: after a few milliseconds its further requests wait
        for those of others.
Rule 4: an error in serving a request ends this connection and nothing else.

The event loop only reports that the socket is ready; receiving and sending are done here, through
the client's `Transport`, because bytes and file slices are told apart here. Only the event loop's
thread touches a connection.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Protocol

from broker.configs.config import BrokerLimits
from broker.connections.caller import Caller
from broker.connections.complaints import ComplaintKind, Complaints
from broker.connections.login_gate import LARGEST_REQUEST, LoginGate
from broker.connections.quotas import Share
from broker.connections.transports import Transport
from ground.meter import Meter
from wire.errors import ProtocolError
from wire.framing.frame_memory import FrameMemory
from wire.framing.frames import FrameReader, SizeLimit
from wire.framing.primitives import Part
from wire.framing.slices import FileSlice

_SLOWEST_BYTES_PER_SECOND = 256 * 1024
_LEAST_BYTES_PER_LOOK = 64 * 1024  # of a request whose memory others wait for
_PATIENCE_OF_OTHERS = 2.0  # seconds
_LONGEST_TURN = 0.004  # seconds
_REFUSAL_SECONDS = 0.1  # as Kafka waits after a failed login
_PARTS_PER_REQUEST = 4

Requests = Generator[memoryview, None, None]
_BYTES_A_SEND = 64 * 1024
_BYTES_A_TURN = 4 * 1024 * 1024


class ShortFile(Exception):
    """Raised when a file ends before its slice does, after the response has announced more
    bytes."""


class SendQueue:
    """Bytes and file slices on their way to one client, in order. `in_memory` counts bytes, not
    slices.

    The bytes of small responses are sent together, a slice together with the bytes before it. One
    turn of the event loop sends a bounded amount, so that a fast reader does not keep others
    waiting.
    """

    __slots__ = ("_parts", "_transport", "in_memory")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._parts: deque[Part] = deque()
        self.in_memory = 0

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def holds_files(self) -> bool:
        return any(isinstance(part, FileSlice) for part in self._parts)

    def queue(self, parts: list[Part]) -> None:
        for part in parts:
            self._parts.append(part)
            if not isinstance(part, FileSlice):
                self.in_memory += len(part)

    def send(self) -> None:
        """Sends until nothing is left, the socket is full, or the turn is over. Raises
        `OSError`."""
        parts, turn_bytes = self._parts, _BYTES_A_TURN
        try:
            while parts and turn_bytes > 0:
                first_part = parts[0]
                turn_bytes -= (
                    self._slice(first_part) if isinstance(first_part, FileSlice) else self._bytes()
                )
        except (BlockingIOError, InterruptedError):
            pass

    def clear(self) -> None:
        """Drops everything unsent; slices release their files."""
        self._parts.clear()

    def _bytes(self) -> int:
        parts = self._parts
        buffers: list[bytes | bytearray | memoryview] = []
        size, has_more = 0, False
        for part in parts:
            if isinstance(part, FileSlice):
                has_more = True
                break
            if size >= _BYTES_A_SEND:
                break
            buffers.append(part)
            size += len(part)
        # Many small responses: one buffer costs the kernel a quarter of what a list of them does.
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        sent_bytes = self._transport.send(data, more=has_more)
        self.in_memory -= sent_bytes
        for _ in buffers:
            parts.popleft()
        if sent_bytes < size:
            parts.appendleft(memoryview(data)[sent_bytes:])
        return sent_bytes

    def _slice(self, piece: FileSlice) -> int:
        sent_bytes = self._transport.send_slice(piece)
        if sent_bytes == 0:
            raise ShortFile
        if sent_bytes < piece.length:
            self._parts[0] = FileSlice(
                piece.file, piece.position + sent_bytes, piece.length - sent_bytes
            )
        else:
            self._parts.popleft()
        return sent_bytes


class Reply:
    """The answer to one request, now or later; `parts` is None until the answer is known.

    `dropped`, if set, is called if the client disconnects before it was answered.
    """

    __slots__ = ("connection", "dropped", "parts")

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.parts: list[Part] | None = None
        self.dropped: Callable[[], None] | None = None

    def send(self, parts: list[Part]) -> None:
        """Sends a response; does nothing if the client has disconnected."""
        self.parts = parts
        self.connection.send_soon()


class Dispatch(Protocol):
    """Serves a request: calls `connection.send`, or `connection.reply` and answers later."""

    def __call__(self, connection: "Connection", frame: memoryview) -> None: ...


class Connection:
    """The connection of one client. Calls `closed` once, at the end."""

    __slots__ = (
        "_closed",
        "_complaints",
        "_dispatch",
        "_ending",
        "_exclusive",
        "_frames",
        "_held_before",
        "_is_over",
        "_limits",
        "_login_due",
        "_loop",
        "_memory",
        "_muted_until",
        "_reading",
        "_refusal",
        "_replies",
        "_request_began",
        "_sender",
        "_sending_soon",
        "_size_limit",
        "_starved_since",
        "_stopping",
        "_transport",
        "_unmute",
        "_waiting",
        "_writing",
        "caller",
        "gate",
        "judged_by",
        "last_active",
        "may_nothing",
        "open",
        "peer",
        "share",
        "share_of",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        peer: str,
        caller: Caller,
        dispatch: Dispatch,
        closed: Callable[["Connection"], None],
        *,
        complaints: Complaints,
        loop: asyncio.AbstractEventLoop,
        scratch: memoryview,
        memory: FrameMemory,
        size_limit: SizeLimit,
        limits: BrokerLimits,
    ) -> None:
        self.peer = peer  # for people who read the log
        self.caller = caller
        self.gate: LoginGate | None = None  # which requires the login, if there is one
        self.share: Share | None = None  # by the quotas and caller in `share_of`
        self.share_of: tuple[int, Caller, bool] | None = None
        self.may_nothing = False  # by the ACLs in `judged_by`
        self.judged_by: object = None
        self.open = True
        self.last_active = loop.time()
        self._transport = transport
        self._dispatch = dispatch
        self._closed = closed
        self._refusal: asyncio.TimerHandle | None = None  # after which the socket is closed
        self._is_over = False
        self._complaints = complaints
        self._loop = loop
        self._limits = limits
        self._memory = memory
        self._size_limit = size_limit
        self._frames = FrameReader(scratch, memory, self._largest, caller.host)
        self._sender = SendQueue(transport)
        self._replies: deque[Reply] = deque()
        self._exclusive = False  # the last request must be answered before the next is served
        self._stopping = False  # serve no further request
        self._ending = ""  # why to close it once nothing is owed
        self._waiting: Requests | None = None  # received requests that are not served yet
        self._request_began = 0.0  # since when the rest of a request is awaited, or 0
        self._starved_since = 0.0  # since when a request waits for memory, or 0
        self._login_due = 0.0  # the deadline of the login, or 0
        self._held_before = 0  # bytes of the request received at the last look
        self._sending_soon = False
        self._muted_until = 0.0  # by the quotas
        self._unmute: asyncio.TimerHandle | None = None
        self._writing = False
        self._reading = False
        self._read_on()

    # Identity

    def pass_gate(self, gate: LoginGate) -> None:
        self.gate = gate
        self.caller = replace(self.caller, gate=gate)
        self._login_due = self._loop.time() + self._limits.stalled_request_seconds

    def admitted(self, principal: str) -> None:
        self._login_due = 0.0
        self.caller = replace(self.caller, principal=principal)
        self.judged_by = None

    def cut_off(self, why: str) -> None:
        """Stops serving after a failed login, and closes once the response is sent."""
        text = f"client={self.peer} listener={self.caller.listener} reason={why!r}"
        self._complaints.say(ComplaintKind.LOGIN_REFUSED, self.caller.host, text, like=why)
        self._ending = why
        self.stop_serving()

    def _largest(self, api_key: int | None) -> int:
        """A client that has not logged in may not make the broker hold much."""
        limit = self._size_limit(api_key)
        return limit if self.gate is None or self.gate.is_open else min(limit, LARGEST_REQUEST)

    # Quotas

    def charge(self, meter: Meter | None, amount: float) -> None:
        """Charges usage to the client's quota; if it is exceeded, stops reading for a while."""
        if meter is None:
            return
        self.wait(meter.use(amount, self._loop.time()))

    def wait(self, seconds: float) -> None:
        """Stops reading from a client that has exceeded a quota, for this long."""
        end_time = self._loop.time() + seconds
        if seconds > 0 and end_time > self._muted_until:
            if self._unmute is not None:
                self._unmute.cancel()
            self._muted_until = end_time
            self._unmute = self._loop.call_later(seconds, self._speak_again)
            self._read_no_more()

    @property
    def throttle_ms(self) -> int:
        """The remaining throttle time, for the client's responses."""
        if not self._muted_until:
            return 0
        return max(1, int((self._muted_until - self._loop.time()) * 1000))

    def _speak_again(self) -> None:
        self._muted_until, self._unmute = 0.0, None
        self._resume_waiting()

    # Answers

    def send(self, parts: list[Part]) -> None:
        """Answers the request that is being dispatched, at once."""
        if self._replies:
            reply = Reply(self)
            reply.parts = parts
            self._replies.append(reply)
        else:
            self._sender.queue(parts)

    def reply(self, *, exclusive: bool = False) -> Reply:
        """Returns a reply in which the request being dispatched can be answered later.

        With `exclusive`, no further request of this client is served until then.
        """
        reply = Reply(self)
        self._replies.append(reply)
        self._exclusive = exclusive
        return reply

    def serve_on(self) -> None:
        """Serves the next requests, once the exclusive reply no longer needs the memory of its
        request."""
        self._exclusive = False
        self._loop.call_soon(self._resume_waiting)

    def send_soon(self) -> None:
        """Sends the answered replies in the next turn, together: one flush answers many
        requests."""
        if not self._sending_soon:
            self._sending_soon = True
            self._loop.call_soon(self._send_replies)

    def _send_replies(self) -> None:
        self._sending_soon = False
        if not self.open:
            return
        while self._replies and (parts := self._replies[0].parts) is not None:
            self._replies.popleft()
            self._sender.queue(parts)
        if not self._replies:
            self._exclusive = False
        self._write()
        self._resume_waiting()

    def _end_if_due(self) -> None:
        if self._ending and self.idle:
            self.close()

    def _write(self) -> None:
        """Send as much as the socket takes; if that is not everything, register for more."""
        try:
            self._sender.send()
        except OSError as error:
            self.close(f"error={error.strerror!r}")
            return
        except ShortFile:
            self.close("error='a segment was truncated while the response was being sent'")
            return
        self.last_active = self._loop.time()
        if bool(self._sender) != self._writing:
            self._writing = not self._writing
            if self._writing:
                self._loop.add_writer(self._transport.descriptor, self._writable)
            else:
                self._loop.remove_writer(self._transport.descriptor)
        self._end_if_due()

    def _writable(self) -> None:
        self._write()
        self._resume_waiting()

    # Requests

    def _readable(self) -> None:
        try:
            count = self._transport.receive(self._frames.targets())
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
        if self._transport.has_more and self._reading:
            self._loop.call_soon(self._read_more)

    def _read_more(self) -> None:
        """Handle bytes that the transport holds: the event loop does not report them."""
        if self._reading and self._waiting is None:
            self._readable()

    def _serve(self, requests: Requests) -> None:
        """Serve requests until there are no more, or until this client must wait."""
        self._waiting = None
        turn_end = time.perf_counter() + _LONGEST_TURN
        try:
            for frame in requests:
                self._request_began = 0.0
                self._dispatch(self, frame)
                if not self.open:
                    return
                if self._ending:
                    break
                turn_is_over = time.perf_counter() > turn_end
                if turn_is_over or self._congested():
                    self._write()
                    if not self.open:
                        return
                    if turn_is_over:
                        self._loop.call_soon(self._resume_waiting)
                    if turn_is_over or self._congested():
                        self._wait(requests)
                        return
        except ProtocolError as error:
            self.refuse(f"error={str(error)!r}", like="not the Kafka protocol")
            return
        except Exception as bug:  # noqa: BLE001  # whatever it is, it is told
            self._complaints.request_failed(self.caller.host, f"client={self.peer}", bug)
            self.close("error='internal error'")
            return
        if self._sender:
            self._write()
        if not self._frames.partial:
            self._request_began = 0.0
        elif not self._request_began:
            self._request_began = self.last_active
        if self.open and self._frames.starved:
            self._read_no_more()
            self._starved_since = self._loop.time()
            self._memory.wait(self._granted, self._frames)

    def _wait(self, requests: Requests) -> None:
        self._waiting = requests
        self._frames.suspend()
        self._read_no_more()
        if self._exclusive:
            # A client that disconnects while it waits is noticed only if it sends nothing.
            self._reading = True
            self._loop.add_reader(self._transport.descriptor, self._readable_while_waiting)

    def _readable_while_waiting(self) -> None:
        if self._transport.is_gone():
            self.close()
        else:
            self._read_no_more()

    def _resume_waiting(self) -> None:
        if not self.open or self._stopping or self._congested():
            return
        if self._waiting is not None:
            self._read_no_more()
            self._serve(self._waiting)
        if self._waiting is None and not self._frames.starved:
            self._read_on()

    def _granted(self) -> bool:
        if self.open:
            if not self._frames.grant():
                return False
            self._starved_since = 0.0
            self._resume_waiting()
        return True

    def _congested(self) -> bool:
        limits = self._limits
        return (
            self._exclusive
            or self._muted_until > 0
            or self._sender.in_memory > limits.unsent_response_bytes
            or len(self._replies) >= limits.requests_per_connection
            or len(self._sender) >= _PARTS_PER_REQUEST * limits.requests_per_connection
        )

    def _read_on(self) -> None:
        if self.open and not self._reading:
            self._reading = True
            self._loop.add_reader(self._transport.descriptor, self._readable)
            if self._transport.has_more:
                self._loop.call_soon(self._read_more)
            if self._frames.partial:
                self._request_began = self._loop.time()

    def _read_no_more(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._transport.descriptor)
        self._request_began = 0.0  # the client is not the one that stalls

    # The end

    @property
    def idle(self) -> bool:
        """Whether no response to the client is due."""
        return not self._replies and not self._sender

    @property
    def holds_files(self) -> bool:
        """Whether files are kept open for responses that the client has not read."""
        return self._sender.holds_files

    def stop_serving(self) -> None:
        """Stops serving requests; replies to earlier requests are still sent."""
        self._stopping = True
        self._read_no_more()
        self._drop_waiting()

    def check_progress(self, now: float) -> None:
        """Closes the connection if its client has stalled within a request or response, or before
        its login. Called once a second."""
        if 0 < self._login_due < now:
            self.close("error='no login within the time limit'")
            return
        if self._request_began:
            allowed_seconds = self._frames.held / _SLOWEST_BYTES_PER_SECOND
            if now - self._request_began > self._limits.stalled_request_seconds + allowed_seconds:
                self.close("error='incomplete request: no progress within the time limit'")
                return
            if self._keeps_others_waiting(now):
                self.close(
                    "error='incomplete request: sent too slowly while others wait for its memory'"
                )
                return
        elif self._starved_since:
            if now - self._starved_since > self._limits.stalled_request_seconds:
                self.close(
                    "error='timed out waiting for request memory (requests_in_memory_bytes)'"
                )
            return
        if now - self.last_active > self._limits.idle_connection_seconds:
            if self._sender:
                self.close("error='client does not read its responses'")
            elif self.idle and not self._frames.starved:
                self.close("reason=idle")

    def _keeps_others_waiting(self, now: float) -> bool:
        """Whether a request begun seconds ago holds memory that others wait for, and almost nothing
        of it has arrived since the last look."""
        held_bytes, old_held_bytes = self._frames.held, self._held_before
        self._held_before = held_bytes
        return (
            self._memory.contended
            and now - self._request_began > _PATIENCE_OF_OTHERS
            and 0 <= held_bytes - old_held_bytes < _LEAST_BYTES_PER_LOOK
        )

    def close(self, why: str = "", *, like: str = "") -> None:
        """Releases everything at once, including what `refuse` left open. Logs `why`, unless the
        client just disconnected. `like` groups complaints whose `why` varies."""
        if self.open:
            self._release(why, like)
        self._hang_up()

    def refuse(self, why: str, *, like: str = "") -> None:
        """Disconnects a client that broke a rule of the protocol. Releases everything at once, but
        closes the socket a moment later, to slow down a client that reconnects after each
        refusal."""
        if self.open:
            self._release(why, like)
            self._refusal = self._loop.call_later(_REFUSAL_SECONDS, self._hang_up)

    def _hang_up(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._refusal is not None:
            self._refusal.cancel()
        self._transport.close()
        self._closed(self)

    def _release(self, why: str, like: str) -> None:
        self.open = False
        if why:
            text = f"client={self.peer} {why}"
            self._complaints.say(
                ComplaintKind.CONNECTION_CLOSED, self.caller.host, text, like=like or why
            )
        self._read_no_more()
        if self._unmute is not None:
            self._unmute.cancel()
        if self._writing:
            self._loop.remove_writer(self._transport.descriptor)
        self._memory.forget(self._granted)
        self._drop_waiting()
        self._frames.close()
        replies, self._replies = self._replies, deque()
        for reply in replies:
            if reply.dropped is not None:
                reply.dropped()
        self._sender.clear()

    def _drop_waiting(self) -> None:
        requests, self._waiting = self._waiting, None
        if requests is not None:
            requests.close()
