"""TLS connections: the handshake, after which the HTTP protocol takes over.

Each connection uses the current certificates, so that these can be replaced. Handshakes have a
deadline; their number is limited, in all and for each address (for IPv6, its /64).
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from ground.network.networks import NetworkRoom
from ground.network.refusals import Refusals
from ground.tls.client import why
from ground.tls.server import ServerTls

HANDSHAKE_SECONDS: Final = 5.0
MOST_HANDSHAKES: Final = 64
MOST_OF_ONE: Final = 16  # of one address


class Handshakes:
    """The unfinished handshakes of one listener. Belongs to the event loop."""

    def __init__(self, tls: ServerTls, refusals: Refusals) -> None:
        self.tls = tls
        self._refusals = refusals
        self.room = NetworkRoom(MOST_OF_ONE, MOST_HANDSHAKES)

    def refuse(self, address: str, why: str) -> None:
        """Logs a failed handshake."""
        now = asyncio.get_running_loop().time()
        self._refusals.say("no TLS handshake", address, "", why, now)


class EncryptedConnection(asyncio.Protocol):
    """A connection until its handshake is complete; `make` makes the protocol that takes over."""

    def __init__(
        self, handshakes: Handshakes, make: Callable[..., asyncio.Protocol], **named: Any
    ) -> None:
        self._handshakes = handshakes
        self._next = make(**named)
        self._task: asyncio.Task[None] | None = None
        self._early = bytearray()  # came with the handshake's end
        self._ended_early = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = cast("asyncio.Transport", transport)
        connection.pause_reading()  # the handshake reads
        address = str((connection.get_extra_info("peername") or ("",))[0])
        if not self._handshakes.room.begin(address):
            self._handshakes.refuse(address, "too many at once")
            connection.abort()
            return
        self._task = asyncio.get_running_loop().create_task(self._encrypt(connection, address))
        self._task.add_done_callback(lambda _: self._handshakes.room.end(address))

    def data_received(self, data: bytes) -> None:
        self._early += data

    def eof_received(self) -> bool:
        self._ended_early = True
        return False

    async def _encrypt(self, connection: asyncio.Transport, address: str) -> None:
        try:
            encrypted_transport = await asyncio.get_running_loop().start_tls(
                connection,
                self,
                self._handshakes.tls.context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
            )
        except OSError as error:  # TLS errors are OSErrors; the transport is closed
            self._handshakes.refuse(address, why(error, "it broke off"))
            return
        # None if the client left during the handshake.
        if encrypted_transport is None or encrypted_transport.is_closing() or self._ended_early:
            self._handshakes.refuse(address, "it broke off")
            connection.abort()
            return
        encrypted_transport.set_protocol(self._next)
        self._next.connection_made(encrypted_transport)
        if self._early:
            self._next.data_received(bytes(self._early))
            self._early.clear()
