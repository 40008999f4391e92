"""A listening socket whose clients speak TLS: they are served once the handshake is done.

Each handshake goes by the certificates as they are then, so those may be exchanged while the
program runs; connections that are open stay. A handshake has a time, an address (of IPv6, its /64)
has a number of them that may be under way, and all together have one: whoever connects and says
nothing keeps nobody else out. What fails is counted, and logged now and then: no scanner fills a
log.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from ground.networks import NetworkRoom
from ground.server_tls import ServerTls
from ground.tls import BadTls

log = logging.getLogger(__name__)

_AT_ONCE: Final = 32  # accepted, and then others are served
_MOST: Final = 1_024  # handshakes under way
_SHUTDOWN_S: Final = 1.0  # for a client to say goodbye
_PAUSE_S: Final = 0.5  # where there are no files left
_LOGGED_EVERY_S: Final = 10.0


class TlsListening:
    """Belongs to the event loop."""

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
        """Take no more; those under way are cut off."""
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
                self._note(host, "too many handshakes are under way")
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
            self._note(host, (error.reason or "it failed").replace("_", " ").lower())
        except (OSError, BadTls) as error:  # a TimeoutError is one
            self._note(host, str(error))
        finally:
            self._room.end(host)

    def _note(self, host: str, why: str) -> None:
        self.failed += 1
        now = self._loop.time()
        if now - self._logged_at >= _LOGGED_EVERY_S:
            self._logged_at = now
            log.warning("TLS handshake failed host=%s why=%r failed=%d", host, why, self.failed)
