"""The registry's HTTP port: its socket and its connections.

Each client's use is bounded: a connection that is idle for long, or sends or reads too slowly, is
closed. At the limit of connections, the longest idle ones make room for a new one; if none is idle,
the new one is answered with 503.
"""

import asyncio
import logging
from operator import itemgetter
from pathlib import Path
from typing import Final

from client.connection.addresses import Address
from ground.administration.entries import Program
from ground.administration.log import AdministrationLog, CannotRemember
from ground.logins.password_file import BadPasswordFile, PasswordFile
from ground.logins.token_file import BadTokenFile, TokenFile
from ground.network.listening import listen
from ground.tls.certificate_expiry import CertificateWatch
from ground.tls.client import BadTls
from ground.tls.server import ServerTls
from registry.access.authentication import Authenticator, LoginMethods
from registry.access.permissions import Permissions
from registry.config import RegistryConfig
from registry.errors import RegistryFailure
from registry.http.administration import Administration
from registry.http.connections.connection import HttpConnection, Unread
from registry.http.connections.request_reader import Bodies
from registry.http.connections.tls_listener import TlsListener
from registry.http.metrics import Gauges, RegistryMetrics
from registry.http.routes import RegistryRoutes
from registry.registry import Registry

log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_LOOK_EVERY_S: Final = 1.0
_LOOK_WHILE_STOPPING_S: Final = 0.01
_BODIES: Final = 64 * 1024 * 1024  # of all connections together
_UNREAD: Final = 64 * 1024 * 1024  # of all connections together


class RegistryHttpServer:
    """The HTTP server. Listens from construction on; `start` begins to answer."""

    def __init__(self, registry: Registry, config: RegistryConfig) -> None:
        """Raises CannotListen, or RegistryFailure if its credentials or TLS files are unusable."""
        self._config = config
        self._limits = config.limits
        self._registry = registry
        self._authenticator, tls = _authenticator(config), _tls(config)
        self._certificates = CertificateWatch(config.certificate_files)
        metrics = RegistryMetrics(self._gauges, self._certificates.ends)
        self._bodies = Bodies(
            config.limits.request_bytes, max(_BODIES, config.limits.request_bytes)
        )
        self._unread = Unread(_UNREAD)
        self._connections: set[HttpConnection] = set()
        self._listener = listen(config.host, config.port, backlog=_BACKLOG, keys=("host", "port"))
        self.port: int = self._listener.getsockname()[1]
        self._administration = self._administration_log()
        self._serve = RegistryRoutes(
            registry,
            metrics,
            self._authenticator,
            self._noting(),
            open_metrics=config.open_metrics,
        ).serve
        self._server: asyncio.Server | None = None
        self._in_tls = None if tls is None else self._listening_in(tls)
        self._looking_after: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._certificates.start()
        if self._in_tls:
            self._in_tls.start()
        else:
            self._server = await asyncio.get_running_loop().create_server(
                self._connection, sock=self._listener, backlog=_BACKLOG
            )
        self._looking_after = asyncio.create_task(self._look_after())

    async def stop(self, *, within: float = 5.0) -> None:
        """Takes no more requests, and answers those in progress, up to a time limit."""
        if self._looking_after is not None:
            self._looking_after.cancel()
        self._certificates.stop()
        if self._server is not None:
            self._server.close()
        if self._in_tls:
            self._in_tls.stop()
        self._listener.close()
        self._authenticator.close()
        for connection in list(self._connections):
            connection.finish()
        for _ in range(int(within / _LOOK_WHILE_STOPPING_S)):
            if not self._connections:
                break
            await asyncio.sleep(_LOOK_WHILE_STOPPING_S)
        for connection in list(self._connections):
            connection.abort()
        if self._administration is not None:
            await asyncio.to_thread(self._administration.close)

    def _noting(self) -> Administration | None:
        if self._administration is None:
            return None
        return Administration(self._administration, "https" if self._config.tls else "http")

    def _administration_log(self) -> AdministrationLog | None:
        config = self._config
        log_config = config.administration_log
        if not log_config.file:
            log.info("no administration log: `administration_log.file` is not set")
            return None
        address = Address(config.advertised_host or config.host, self.port)
        program = Program(config.cluster, f"registry {address}")
        try:
            return AdministrationLog(Path(log_config.file), log_config, program)
        except CannotRemember as error:
            self._listener.close()
            raise RegistryFailure(str(error)) from None

    def _listening_in(self, tls: ServerTls) -> TlsListener:
        return TlsListener(
            self._listener,
            tls,
            self._connection,
            seconds=self._limits.handshake_seconds,
            of_a_host=self._limits.handshakes_of_a_host,
        )

    def _gauges(self) -> Gauges:
        contents = self._registry.contents
        return Gauges(
            versions=len(contents),
            offset=self._registry.offset,
            connections=len(self._connections),
            highest_id=contents.highest_id,
            is_writer=self._registry.is_writer,
            left_out=contents.left_out,
            mirrored_offsets=self._registry.mirrored_offsets,
            failed_handshakes=self._in_tls.failed if self._in_tls else 0,
            is_insecure=self._config.is_open_to_anybody,
        )

    def _connection(self) -> HttpConnection:
        is_full = len(self._connections) >= self._limits.connections and not self._made_room()
        return HttpConnection(
            self._serve,
            self._bodies,
            self._unread,
            self._connections,
            full=is_full,
            names=self._config.certificate_names,
        )

    def _made_room(self) -> bool:
        """Close a tenth of the idle connections, so that this happens rarely; whether any were
        idle."""
        idle_times = [(connection.idle_since, connection) for connection in self._connections]
        oldest_connections = sorted(
            (
                (idle_since, connection)
                for idle_since, connection in idle_times
                if idle_since is not None
            ),
            key=itemgetter(0),
        )
        for _, connection in oldest_connections[: len(oldest_connections) // 10 + 1]:
            connection.abort()
        return bool(oldest_connections)

    async def _look_after(self) -> None:
        limits = self._limits
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            for connection in list(self._connections):
                if connection.overdue(
                    idle_s=limits.idle_connection_seconds,
                    stalled_s=limits.stalled_request_seconds,
                ):
                    connection.abort()


def _tls(config: RegistryConfig) -> ServerTls | None:
    """Raises RegistryFailure if the certificates are invalid at start."""
    if config.tls is None:
        return None
    tls = ServerTls(config.tls)
    try:
        _ = tls.context
    except BadTls as error:
        raise RegistryFailure(f"`tls`: {error}") from None
    return tls


def _authenticator(config: RegistryConfig) -> Authenticator:
    try:
        login_methods = LoginMethods(
            users=PasswordFile(Path(config.users_file)) if config.users_file else None,
            tokens=TokenFile(Path(config.tokens_file)) if config.tokens_file else None,
            certificates=config.tls is not None and bool(config.tls.client_ca),
            registries=config.registries,
        )
    except (BadPasswordFile, BadTokenFile) as error:
        raise RegistryFailure(str(error)) from None
    return Authenticator(login_methods, Permissions(config.permissions))
