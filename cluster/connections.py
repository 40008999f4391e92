"""Connections as kazoo is given them: bounded in time, by TLS or not, and what to log in with.

kazoo's own TLS believes everybody whom the system believes beside `ca`, and looks at no names
unless asked; ours is that of all other clients here. Why a connection could not be made is lost in
kazoo, so it is logged here, once for each reason.
"""

import logging
import socket
import ssl
import time
from collections.abc import MutableMapping
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

from cluster.security import ZooKeeperSecurity
from ground.secrets import NoSecret
from ground.tls import BadTls, ClientTls, why

MECHANISM: Final = "DIGEST-MD5"
_MOST_STEPS: Final = 100  # a login takes about twenty

log = logging.getLogger(__name__)


class Connections(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, and the sockets that they are given.

    kazoo would let a single attempt take a whole session timeout: with one member of an ensemble
    unreachable, the session would end before the next member is tried; and a server whose port is
    open, but which does not serve yet, now and then never answers who greets it just then.
    """

    def __init__(self, attempt_s: float, security: ZooKeeperSecurity) -> None:
        super().__init__()
        self._attempt_s = attempt_s
        self._greeted_until: float | None = None  # the attempt's end; None once it is in
        self._security = security
        self._tls = ClientTls(security.tls) if security.tls is not None else None
        self._said = ""
        self._steps = 0
        # kazoo passes what is in it to each login, so that a new password is taken over.
        self.login: MutableMapping[str, Any] | None = (
            {"mechanism": MECHANISM, "username": security.user, "password": ""}
            if security.user
            else None
        )

    def create_connection(self, *args: Any, **kwargs: Any) -> socket.socket:
        """Raises OSError."""
        address = kwargs["address"]
        try:
            self._take_password()
            connection = socket.create_connection(address, self._attempt_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = encrypted(connection, self._tls, kwargs["hostname"])
        except (BadTls, NoSecret) as error:
            self._say(str(error))
            raise OSError(str(error)) from None
        except ssl.SSLError as error:
            self._say(f"TLS: {why(error, 'it failed')}")
            raise
        self._said = ""
        self._steps = 0
        self._greeted_until = time.monotonic() + self._attempt_s
        return connection

    def select(self, *args: Any, **kwargs: Any) -> Any:
        """Raises OSError where a login does not end: a server that knows no logins answers each
        step with nothing, and kazoo would ask it for ever, as fast as it can."""
        if len(args[0]) > 1:  # with its requests to send, kazoo also waits for a second socket
            self._greeted_until = None
        if self._greeted_until is None:
            return super().select(*args, **kwargs)
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise OSError("the login does not end")
        readable, writable, failed, timeout_s = args
        left_s = max(0.0, self._greeted_until - time.monotonic())
        return super().select(readable, writable, failed, min(timeout_s, left_s))

    def _take_password(self) -> None:
        """Raises NoSecret."""
        if self.login is not None:
            self.login["password"] = self._security.password.read().encode()

    def _say(self, reason: str) -> None:
        if reason != self._said:
            self._said = reason
            log.error("zookeeper connection cannot be made, trying again reason=%s", reason)


def encrypted(connection: socket.socket, tls: ClientTls, host: str) -> ssl.SSLSocket:
    """Raises BadTls, OSError; then the connection is closed."""
    try:
        return tls.context.wrap_socket(connection, server_hostname=tls.server_name(host))
    except BaseException:
        connection.close()
        raise
