"""Bounds the TLS handshakes in progress, the stage between an accepted socket and a connection.

A handshake costs the broker up to a millisecond, and a client that begins one nothing. So a silent
client costs a descriptor and no TLS memory; handshakes that can proceed wait in line, and one turn
of the event loop moves only a bounded number on; handshakes that take too long are closed; and each
address may have only a bounded number under way. An IPv6 address stands for its /64.
"""

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.configs.listeners import Listener
from broker.connections.complaints import ComplaintKind, Complaints
from ground.network.networks import NetworkRoom
from ground.tls.client import BadTls

_SECONDS: Final = 10.0
_LONGEST_TURN: Final = 0.004
_OF_AN_ADDRESS: Final = 500

Done = Callable[[Listener, ssl.SSLSocket, tuple[str, int]], None]


class Handshakes:
    """All handshakes of a broker. Calls `done` for each that succeeds, and `ended` whenever one
    ends, successful or not. Belongs to the event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        complaints: Complaints,
        done: Done,
        ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._complaints = complaints
        self._done = done
        self._ended = ended
        self._under_way: dict[_Handshake, None] = {}  # the oldest first
        self._room = NetworkRoom(_OF_AN_ADDRESS)
        self._in_line: deque[_Handshake] = deque()

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, listener: Listener, sock: socket.socket, address: tuple[str, int]) -> None:
        host = address[0]
        if not self._room.begin(host):
            sock.close()
            text = f"client={host}:{address[1]} handshakes={_OF_AN_ADDRESS}"
            self._complaints.say(ComplaintKind.CONNECTION_REFUSED, host, text, like="handshakes")
            return
        handshake = _Handshake(listener, sock, address, self._loop.time())
        self._under_way[handshake] = None
        self._loop.add_reader(sock.fileno(), self._came_on, handshake)

    def check(self, now: float) -> None:
        """Closes handshakes that take too long. Called once a second."""
        for handshake in tuple(self._under_way):
            if now - handshake.began <= _SECONDS:
                break
            self._give_up(handshake, "error='timed out'")

    def close(self) -> None:
        for handshake in tuple(self._under_way):
            self._end(handshake)
            handshake.sock.close()

    def _came_on(self, handshake: "_Handshake") -> None:
        handshake.listen_no_more(self._loop)
        self._in_line.append(handshake)
        if len(self._in_line) == 1:
            self._loop.call_soon(self._move_on)

    def _move_on(self) -> None:
        turn_end = time.perf_counter() + _LONGEST_TURN
        while self._in_line and time.perf_counter() < turn_end:
            handshake = self._in_line.popleft()
            if handshake in self._under_way:
                self._step(handshake)
        if self._in_line:
            self._loop.call_soon(self._move_on)

    def _step(self, handshake: "_Handshake") -> None:
        try:
            sock = handshake.step()
        except ssl.SSLWantReadError:
            self._loop.add_reader(handshake.sock.fileno(), self._came_on, handshake)
        except ssl.SSLWantWriteError:
            handshake.writes = True
            self._loop.add_writer(handshake.sock.fileno(), self._came_on, handshake)
        except ssl.SSLError as error:
            reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else ""
            reason = reason or (error.reason or "unknown").replace("_", " ").lower()
            self._give_up(handshake, f"error={reason!r}", like=reason)
        except (OSError, BadTls) as error:
            # A client that disconnects does not mean anything by it.
            is_gone = isinstance(error, ConnectionError)
            self._give_up(handshake, "" if is_gone else f"error={str(error)!r}")
        else:
            self._end(handshake)
            self._done(handshake.listener, sock, handshake.address)

    def _give_up(self, handshake: "_Handshake", why: str, *, like: str = "") -> None:
        self._end(handshake)
        handshake.sock.close()
        if why:
            host, port = handshake.address
            text = f"client={host}:{port} listener={handshake.listener.name} {why}"
            self._complaints.say(ComplaintKind.HANDSHAKE_FAILED, host, text, like=like or why)
        self._ended()

    def _end(self, handshake: "_Handshake") -> None:
        handshake.listen_no_more(self._loop)
        del self._under_way[handshake]
        self._room.end(handshake.address[0])


class _Handshake:
    __slots__ = ("address", "began", "listener", "sock", "writes")

    def __init__(
        self, listener: Listener, sock: socket.socket, address: tuple[str, int], began: float
    ) -> None:
        self.listener = listener
        self.sock = sock
        self.address = address
        self.began = began
        self.writes = False  # wait until the socket can be written to

    def step(self) -> ssl.SSLSocket:
        """Returns the socket once the handshake is done; until then raises the exception for
        OpenSSL's next step."""
        if not isinstance(self.sock, ssl.SSLSocket):
            tls = self.listener.tls
            assert tls is not None
            # With the certificates as they are now.
            self.sock = tls.context.wrap_socket(
                self.sock, server_side=True, do_handshake_on_connect=False
            )
        self.sock.do_handshake()
        return self.sock

    def listen_no_more(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.writes:
            loop.remove_writer(self.sock.fileno())
            self.writes = False
        else:
            loop.remove_reader(self.sock.fileno())
