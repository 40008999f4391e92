"""The HTTP server: uvicorn on a thread and an event loop of its own, so that responses do not wait
for the rest of the program, and `/healthz` answers while the program starts.

Clients' resources are limited: connections, the size of a request's head, the time to send it, and
the time that a response may stay unread. With `tls`, plain HTTP gets no response.

uvicorn has no deadline for the head of a request, nor for a silent connection: there is one here.
"""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from audit.clusters.messages.reader import MessageReader
from audit.configuration.config import AuditConfig
from audit.errors import AuditFailure, AuditStoreError, NotNow, StoreDamaged
from audit.http.access.access_control import AccessControl
from audit.http.access.visitors import HASHING_THREADS, Visitors
from audit.http.application import THREADS, AuditApplication
from audit.http.certificates import THREADS as JUDGING_THREADS
from audit.http.certificates import Certificates
from audit.http.messages import THREADS as READING_THREADS
from audit.http.messages import ShownMessages
from audit.http.page_files import PageFile
from audit.http.statements import THREADS as WRITING_THREADS
from audit.http.statements import Statements
from audit.http.strict_requests import StrictRequests
from audit.http.tls import EncryptedConnection, Handshakes
from audit.service.service import Service
from ground.network.listening import listen
from ground.network.networks import network_of
from ground.network.refusals import Refusals
from ground.tls.client import BadTls
from ground.tls.server import ServerTls

HEAD_SECONDS: Final = 5.0  # from the first byte of a request, or a connection's start, to all of it


class PatientConnection(H11Protocol):
    def __init__(self, refusals: Refusals, **named: Any) -> None:
        super().__init__(**named)
        self.conn = StrictRequests(_HEAD_BYTES)
        self.network = ""  # its client's
        self._refusals = refusals
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._is_one_too_many():
            transport.abort()
            return
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering():
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _is_one_too_many(self) -> bool:
        """Whether the client's address already has its share of the connections."""
        address = self.client[0] if self.client else ""
        self.network = network_of(address)
        networks = (getattr(connection, "network", None) for connection in self.connections)
        if sum(network == self.network for network in networks) <= _OF_ONE_ADDRESS:
            return False
        self._refusals.say("too many connections", address, "", "", self.loop.time())
        return True

    def _is_answering(self) -> bool:
        # None before the first request, which uvicorn's own type leaves out.
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def _too_slow(self) -> None:
        self._deadline = None
        if not self._is_answering():
            self.transport.abort()

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


_BACKLOG: Final = 128
_CONNECTIONS: Final = 256
_OF_ONE_ADDRESS: Final = _CONNECTIONS * 3 // 4  # may be a proxy's, in front of all others
_HEAD_BYTES: Final = 64 * 1024
_IDLE_S: Final = 30
_STOPPING_S: Final = 5
_TICK_S: Final = 1.0  # the most that a response's Date is behind
_UNREAD_MILLIS: Final = 60_000

log = logging.getLogger(__name__)


class AuditHttpServer:
    """The server. It listens once constructed, and `start` begins to serve. Raises CannotListen,
    AuditFailure."""

    def __init__(
        self,
        service: Service,
        figures: Callable[[], bytes],
        files: Mapping[str, PageFile],
        version: str,
    ) -> None:
        config = service.config
        self._service = service
        self._parts = (figures, files, version)
        refusals = self._refusals = Refusals()
        service.refused = refusals.counts
        self._handshakes = _handshakes(config, refusals)
        self._hashing = ThreadPoolExecutor(HASHING_THREADS, thread_name_prefix="passwords")
        self._visitors = Visitors(config, self._hashing)
        service.sessions = self._visitors.sessions.__len__
        self._listener = listen(config.host, config.port, backlog=_BACKLOG, keys=("host", "port"))
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MILLIS)
        # Connections inherit it. Without it a body waits for the client's delayed ACK.
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._listener.getsockname()[1]
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._server: _Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._application: AuditApplication | None = None

    def start(self) -> None:
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        """Finishes the current requests, ends streams, and stops the thread."""
        if self._thread.ident is not None and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._end)
            self._thread.join()
        self._hashing.shutdown(cancel_futures=True)
        self._listener.close()

    def _protocol(self) -> Any:
        """The factory of connections, for uvicorn."""
        make_connection = partial(PatientConnection, self._refusals)
        if self._handshakes is None:
            return make_connection
        return partial(EncryptedConnection, self._handshakes, make_connection)

    def _end(self) -> None:
        assert self._server is not None
        assert self._application is not None
        self._application.streams.end()
        self._server.end()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("http server failed")
            raise
        finally:
            self._started.set()

    def _message_reader(self) -> MessageReader:
        config = self._service.config
        return MessageReader(config.all_clusters, self._paths, config.messages.within)

    def _paths(self, sources: Collection[str]) -> Mapping[str, str]:
        """The paths of sources; none while the database is not open."""
        try:
            return self._service.reading.paths(sources) if sources else {}
        except StoreDamaged as error:
            self._service.note_damage(str(error))
        except (NotNow, AuditStoreError):
            pass
        return {}

    async def _serve(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        figures, files, version = self._parts
        with (
            ThreadPoolExecutor(THREADS, thread_name_prefix="answers") as executor,
            ThreadPoolExecutor(
                WRITING_THREADS, thread_name_prefix="statements"
            ) as writing_executor,
            ThreadPoolExecutor(
                JUDGING_THREADS, thread_name_prefix="certificates"
            ) as judging_executor,
            closing(self._message_reader()) as reader,
            ThreadPoolExecutor(READING_THREADS, thread_name_prefix="messages") as reading_executor,
        ):
            application = self._application = AuditApplication(
                self._service,
                figures,
                files,
                executor,
                version,
                statements=Statements(self._service, writing_executor),
                certificates=Certificates(self._service, judging_executor, version),
                messages=ShownMessages(self._service.config, reader, reading_executor),
            )

            access_control = AccessControl(
                application, self._service.config, self._visitors, self._refusals, files
            )

            def wake() -> None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(application.streams.wake)

            self._service.standing.listen(wake)
            self._server = _Server(
                uvicorn.Config(
                    access_control,
                    http=self._protocol(),
                    loop="none",
                    ws="none",
                    lifespan="off",
                    log_config=None,
                    log_level="critical",  # clients' errors are not logged
                    access_log=False,
                    proxy_headers=False,
                    server_header=False,
                    limit_concurrency=_CONNECTIONS,
                    timeout_keep_alive=_IDLE_S,
                    timeout_graceful_shutdown=_STOPPING_S,
                    h11_max_incomplete_event_size=_HEAD_BYTES,
                    backlog=_BACKLOG,
                )
            )
            self._started.set()
            await self._server.serve(sockets=[self._listener])


class _Server(uvicorn.Server):
    """A server that ends on an event, and ticks once a second. uvicorn's own loop wakes ten times a
    second to check whether it should end, which took a fifth of an idle audit's processor time."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Ends the server. Must be called on its event loop."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TICK_S)


def _handshakes(config: AuditConfig, refusals: Refusals) -> Handshakes | None:
    """Raises AuditFailure if the certificate cannot be used."""
    if config.tls is None:
        return None
    tls = ServerTls(config.tls)
    try:
        _ = tls.context
    except BadTls as error:
        raise AuditFailure(f"`tls`: {error}") from None
    return Handshakes(tls, refusals)
