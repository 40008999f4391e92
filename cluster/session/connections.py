"""The sockets that kazoo uses: with time limits, TLS and login.

kazoo's own TLS trusts the system's authorities in addition to `ca`, and checks no names unless
asked; ours is that of all our clients. kazoo hides the reason of a failed connection, so it is
logged here, once per reason.
"""

import logging
import socket
import ssl
import time
from collections.abc import MutableMapping
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

from cluster.session.security import ZooKeeperSecurity
from ground.logins.secrets import NoSecret
from ground.tls.client import BadTls, ClientTls, why

MECHANISM: Final = "DIGEST-MD5"
_MOST_STEPS: Final = 100  # of select; a login takes about twenty

log = logging.getLogger(__name__)


class Connections(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Provides kazoo with threads and sockets.

    kazoo would let one attempt take a whole session timeout: with an unreachable member of an
    ensemble, the session would end before the next member is tried; and a server whose port is open
    but which does not serve yet may never answer a greeting.
    """

    def __init__(self, attempt_s: float, security: ZooKeeperSecurity) -> None:
        super().__init__()
        self._attempt_s = attempt_s
        self._greeting_deadline: float | None = None  # deadline of the attempt; None once connected
        self._security = security
        self._tls = ClientTls(security.tls) if security.tls is not None else None
        self._logged = ""
        self._steps = 0
        # kazoo uses its current contents for each login, so that a new password takes effect.
        self.login: MutableMapping[str, Any] | None = (
            {"mechanism": MECHANISM, "username": security.user, "password": ""}
            if security.user
            else None
        )

    def create_connection(self, *args: Any, **kwargs: Any) -> socket.socket:
        """Connects to a server. Raises OSError."""
        address = kwargs["address"]
        try:
            self._take_password()
            connection = socket.create_connection(address, self._attempt_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = encrypted(connection, self._tls, kwargs["hostname"])
        except (BadTls, NoSecret) as error:
            self._log_once(str(error))
            raise OSError(str(error)) from None
        except ssl.SSLError as error:
            self._log_once(f"TLS: {why(error, 'it failed')}")
            raise
        self._logged = ""
        self._steps = 0
        self._greeting_deadline = time.monotonic() + self._attempt_s
        return connection

    def select(self, *args: Any, **kwargs: Any) -> Any:
        """Waits for events. Raises OSError if a login does not end: a server without logins answers
        each step with an empty token, and kazoo would repeat the step forever."""
        if len(args[0]) > 1:  # after the greeting, kazoo also waits for a second socket
            self._greeting_deadline = None
        if self._greeting_deadline is None:
            return super().select(*args, **kwargs)
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise OSError("the login does not end")
        readable, writable, errored, timeout_s = args
        left_s = max(0.0, self._greeting_deadline - time.monotonic())
        return super().select(readable, writable, errored, min(timeout_s, left_s))

    def _take_password(self) -> None:
        """Raises NoSecret."""
        if self.login is not None:
            self.login["password"] = self._security.password.read().encode()

    def _log_once(self, reason: str) -> None:
        if reason != self._logged:
            self._logged = reason
            log.error("cannot connect to zookeeper, trying again reason=%s", reason)


def encrypted(connection: socket.socket, tls: ClientTls, host: str) -> ssl.SSLSocket:
    """Starts TLS. Raises BadTls or OSError, after closing the connection."""
    try:
        return tls.context.wrap_socket(connection, server_hostname=tls.server_name(host))
    except BaseException:
        connection.close()
        raise
