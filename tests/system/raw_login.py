"""Logins on raw connections, step by step, in plaintext or over TLS."""

import ssl
import struct
from pathlib import Path
from typing import Final

import msgspec

from client.connection.logins import Exchange, scram
from tests.system.raw import WITHIN, RawConnection, int16, int32, string

HANDSHAKE: Final = 17
AUTHENTICATE: Final = 36


class Entry(msgspec.Struct, frozen=True):
    """A login by SCRAM, over TLS if it names an authority."""

    user: str
    password_file: Path
    ca: Path | None = None

    def connection(self, bootstrap: str) -> RawConnection:
        """A new connection that is logged in."""
        context = None if self.ca is None else ssl.create_default_context(cafile=str(self.ca))
        connection = RawConnection(bootstrap) if context is None else over_tls(bootstrap, context)
        try:
            answer = logged_in(connection, self.user, self.password_file.read_text().rstrip("\n"))
            assert answer[:2] == int16(0), f"{self.user} is not let in: {answer!r}"
        except BaseException:
            connection.close()
            raise
        return connection


def over_tls(bootstrap: str, context: ssl.SSLContext) -> RawConnection:
    connection = RawConnection(bootstrap)
    try:
        connection.socket = context.wrap_socket(connection.socket, server_hostname="localhost")
    except OSError:
        connection.close()
        raise
    return connection


def begun(connection: RawConnection, mechanism: str) -> None:
    assert connection.ask(HANDSHAKE, 1, string(mechanism))[:2] == int16(0)


def said(connection: RawConnection, saying: Exchange, within: float = WITHIN) -> bytes:
    """The last answer to a login, which may be an error."""
    token = next(saying)
    while True:
        answer = connection.ask(AUTHENTICATE, 1, int32(len(token)) + token, within)
        if answer[:2] != int16(0):
            return answer
        (size,) = struct.unpack_from(">i", answer, 4)
        try:
            token = saying.send(answer[8 : 8 + size])
        except StopIteration:
            return answer


def logged_in(connection: RawConnection, user: str, password: str) -> bytes:
    """Log in by SCRAM; returns the last answer."""
    begun(connection, "SCRAM-SHA-512")
    return said(connection, scram("sha512", user, password, lambda: "a-nonce"))
