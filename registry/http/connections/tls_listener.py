"""A TLS listener: connections are served once their handshake is done.

Each handshake uses the current certificates, so they can be replaced while the program runs; open
connections are unaffected. Handshakes are limited in time, per address (of IPv6, its /64) and in
total, so that silent clients cannot keep others out. Failures are counted and logged at intervals,
so that a scanner cannot fill the log.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from ground.network.networks import NetworkRoom
from ground.tls.client import BadTls
from ground.tls.server import ServerTls

log = logging.getLogger(__name__)

_AT_ONCE: Final = 32  # connections accepted before other work gets its turn
_MOST: Final = 1_024  # concurrent handshakes
_SHUTDOWN_S: Final = 1.0  # for the client's close_notify
_PAUSE_S: Final = 0.5  # when out of file descriptors
_LOGGED_EVERY_S: Final = 10.0


class TlsListener:
    """A listener with its handshakes. Belongs to the event loop."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ServerTls,
        connection: Callable[[], asyncio.Protocol],
        *,
        seconds: float,
        of_a_host: int,
    ) -> None:
        self.failed = 0
        self._listener = listener
        self._tls = tls
        self._connection = connection
        self._seconds = seconds
        self._room = NetworkRoom(of_a_host, _MOST)
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged_at = float("-inf")

    def start(self) -> None:
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def stop(self) -> None:
        """Accepts no more connections; cuts off those in handshake."""
        self._loop.remove_reader(self._listener.fileno())
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}:
                    raise
                log.warning("connection not accepted error=%r", error.strerror)
                self._loop.remove_reader(self._listener.fileno())
                self._loop.call_later(_PAUSE_S, self._accept_again)
                return
            sock.setblocking(False)
            host = str(address[0])
            if not self._room.begin(host):
                sock.close()
                self._note(host, "too many concurrent handshakes")
                continue
            task = self._loop.create_task(self._serve(sock, host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _accept_again(self) -> None:
        if self._listener.fileno() >= 0:
            self.start()

    async def _serve(self, sock: socket.socket, host: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._connection,
                sock,
                ssl=self._tls.context,
                ssl_handshake_timeout=self._seconds,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except ssl.SSLError as error:
            self._note(host, (error.reason or "failed").replace("_", " ").lower())
        except (OSError, BadTls) as error:  # a TimeoutError is one
            self._note(host, str(error))
        finally:
            self._room.end(host)

    def _note(self, host: str, reason: str) -> None:
        self.failed += 1
        time = self._loop.time()
        if time - self._logged_at >= _LOGGED_EVERY_S:
            self._logged_at = time
            log.warning("TLS handshake failed host=%s why=%r failed=%d", host, reason, self.failed)
