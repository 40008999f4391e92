"""The listening sockets, and the accepted connections.

One event loop, one thread. Connections to a TLS listener begin with a handshake. Connections share
one receive buffer, and one memory allowance for unfinished requests. Stalled and idle connections
are closed once a second; otherwise a silent connection costs nothing.
"""

import asyncio
import socket
import ssl
from functools import partial

from broker.configs.config import BrokerConfig
from broker.configs.listeners import Listener, ListenerConfig
from broker.connections.caller import ANONYMOUS, Caller
from broker.connections.complaints import ComplaintKind, Complaints
from broker.connections.connection import Connection
from broker.connections.handshakes import Handshakes
from broker.connections.login_gate import LoginGate
from broker.connections.quotas import Quotas
from broker.connections.transports import Clear, Encrypted, Transport
from broker.errors import BrokerError
from broker.logins.logins import Logins
from broker.monitoring.metrics import BrokerMetrics
from broker.server.dispatch import Dispatcher
from ground.network.listening import listen
from ground.network.socket_options import prepare
from ground.tls.client import BadTls
from ground.tls.server import ServerTls
from wire.framing.frame_memory import SHARED_BUFFER, FrameMemory

_BACKLOG = 1024
_ACCEPTS_A_TURN = 64
_OUT_OF_FILES_PAUSE = 1.0
_TROUBLE_S = 10.0  # for which a rejected connection counts as trouble
_SLOW_S = 1.0


class Server:
    """Accepts and keeps connections until it is closed."""

    def __init__(
        self,
        config: BrokerConfig,
        metrics: BrokerMetrics,
        complaints: Complaints,
        quotas: Quotas,
        *,
        most_connections: int,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._complaints = complaints
        self._quotas = quotas
        self._loop = asyncio.get_running_loop()
        self._scratch = memoryview(bytearray(SHARED_BUFFER))
        self._memory = FrameMemory(config.limits.requests_in_memory_bytes)
        self._connections: set[Connection] = set()
        self._dispatcher: Dispatcher
        self._logins: Logins
        self._limit = most_connections
        self._sockets: dict[str, socket.socket] = {}  # listening sockets, by their listeners' names
        self._handshakes = Handshakes(self._loop, complaints, self._handshake_done, self._count)
        try:
            self.listeners = [self._listen(listener) for listener in config.every_listener]
        except BaseException:
            self._close_sockets()
            raise
        self._trouble, self._trouble_until = "", 0.0
        self._check_timer: asyncio.TimerHandle | None = None

    def _listen(self, config: ListenerConfig) -> Listener:
        """Also reads its certificates: unusable ones are reported before any client comes."""
        tls = None if config.tls is None else ServerTls(config.tls)
        if tls is not None:
            try:
                _ = tls.context
            except BadTls as error:
                raise BrokerError(f"listener {config.name}: {error}") from None
        server_socket = listen(config.host, config.port, backlog=_BACKLOG, keys=("host", "port"))
        self._sockets[config.name] = server_socket
        return Listener(config, server_socket.getsockname()[1], tls)

    @property
    def port(self) -> int:
        return self.listeners[0].port

    def start(self, dispatcher: Dispatcher, logins: Logins) -> None:
        """Starts to accept connections and serve their requests; until then clients wait."""
        self._dispatcher = dispatcher
        self._logins = logins
        for listener in self.listeners:
            self._accept_on(listener)
        self._check_timer = self._loop.call_later(1.0, self._check)

    async def drain(self, seconds: float) -> None:
        """Stops accepting and serving, and waits for pending responses, at most this long."""
        self._close_sockets()
        self._handshakes.close()
        for connection in self._connections:
            connection.stop_serving()
        deadline = self._loop.time() + seconds
        while self._loop.time() < deadline:
            if all(connection.idle for connection in self._connections):
                break
            await asyncio.sleep(0.01)

    def close(self) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
        for connection in tuple(self._connections):
            connection.close()
        self._close_sockets()
        self._handshakes.close()
        self._complaints.close()

    def _close_sockets(self) -> None:
        for listens in self._sockets.values():
            self._loop.remove_reader(listens.fileno())
            listens.close()
        self._sockets.clear()

    def let_go_of_files(self) -> None:
        """Closes the connection whose client has not read for longest, to free files that logs
        need."""
        waiting_connections = [
            connection for connection in self._connections if connection.holds_files
        ]
        slowest_connection = min(
            waiting_connections, key=lambda connection: connection.last_active, default=None
        )
        if (
            slowest_connection is not None
            and self._loop.time() - slowest_connection.last_active > _SLOW_S
        ):
            slowest_connection.close(
                "error='client does not read its responses, and their files are needed'"
            )

    @property
    def trouble(self) -> str:
        """Why no connections are accepted at the moment; "" if they are."""
        return self._trouble if self._loop.time() < self._trouble_until else ""

    def _accept_on(self, listener: Listener) -> None:
        if listens := self._sockets.get(listener.name):
            self._loop.add_reader(listens.fileno(), self._accept, listener, listens)

    def _accept(self, listener: Listener, listens: socket.socket) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                sock, address = listens.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                reason = f"error={error.strerror!r}"
                self._complaints.say(ComplaintKind.CANNOT_ACCEPT, "", reason, like=reason)
                self._note_trouble(f"connections cannot be accepted: {error.strerror}")
                self._pause(listener, listens)
                return
            if len(self._connections) + len(self._handshakes) >= self._limit:
                # First: a rejected client may ask another thread for the reason at once.
                self._note_trouble(f"all {self._limit} connections are in use")
                sock.close()
                text = f"client={address[0]}:{address[1]} limit={self._limit}"
                self._complaints.say(ComplaintKind.CONNECTION_REFUSED, str(address[0]), text)
                continue
            if self._quotas.active and self._quotas.connection_from(
                str(address[0]), self._loop.time()
            ):
                sock.close()
                self._complaints.say(
                    ComplaintKind.CONNECTION_REFUSED,
                    str(address[0]),
                    f"client={address[0]}:{address[1]} reason='connection rate quota exceeded'",
                    like="quota",
                )
                continue
            sock.setblocking(False)
            prepare(sock)
            # Left alone, the kernel would keep megabytes for every client that reads slowly.
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.limits.send_buffer_bytes
            )
            client_address = str(address[0]), int(address[1])
            if listener.tls is None:
                self._serve(listener, Clear(sock), client_address)
            else:
                self._handshakes.begin(listener, sock, client_address)
            self._count()

    def _handshake_done(
        self, listener: Listener, sock: ssl.SSLSocket, address: tuple[str, int]
    ) -> None:
        name = listener.certificate_name(sock)
        if not name and listener.certifies and sock.getpeercert():
            sock.close()
            text = f"client={address[0]}:{address[1]} reason='its certificate matches no principal'"
            self._complaints.say(ComplaintKind.LOGIN_REFUSED, address[0], text, like="nobody")
        else:
            self._serve(listener, Encrypted(sock), address, name)
        self._count()

    def _serve(
        self, listener: Listener, transport: Transport, address: tuple[str, int], name: str = ""
    ) -> None:
        """`name` is the principal of its certificate."""
        host, port = address
        config = listener.config
        caller = Caller(host, principal=name or ANONYMOUS, listener=listener.name)
        connection = Connection(
            transport,
            f"{host}:{port}",
            caller,
            self._dispatcher,
            self._closed,
            complaints=self._complaints,
            loop=self._loop,
            scratch=self._scratch,
            memory=self._memory,
            size_limit=self._dispatcher.size_limit,
            limits=self._config.limits,
        )
        if config.logins and not (name and listener.certifies):
            gate = LoginGate(
                self._logins,
                config.logins,
                host,
                config.login_seconds,
                admitted=connection.admitted,
                refused=connection.cut_off,
            )
            connection.pass_gate(gate)
        self._connections.add(connection)

    def _note_trouble(self, why: str) -> None:
        self._trouble, self._trouble_until = why, self._loop.time() + _TROUBLE_S

    def _pause(self, listener: Listener, listens: socket.socket) -> None:
        """Stop accepting for a moment: the kernel's queue keeps new connections."""
        self._loop.remove_reader(listens.fileno())
        self._loop.call_later(_OUT_OF_FILES_PAUSE, partial(self._accept_on, listener))

    def _closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._count()

    def _count(self) -> None:
        self._metrics.connections = len(self._connections) + len(self._handshakes)

    def _check(self) -> None:
        now = self._loop.time()
        for connection in tuple(self._connections):
            connection.check_progress(now)
        self._handshakes.check(now)
        self._complaints.tick()
        self._check_timer = self._loop.call_later(1.0, self._check)
