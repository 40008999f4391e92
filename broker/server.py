"""The listening socket, and the connections it has accepted.

One event loop, one thread. Connections share one buffer to receive into and one allowance of
memory for unfinished requests. Once a second, stalled and idle connections are looked for; nothing
else is done for a connection that says nothing.
"""

import asyncio
import socket

from broker.caller import Caller
from broker.complaints import ComplaintKind, Complaints
from broker.config import BrokerConfig
from broker.connection import Connection
from broker.dispatch import Dispatcher
from broker.metrics import BrokerMetrics
from ground.listening import listen
from wire.frame_memory import FrameMemory

_BACKLOG = 1024
_RECEIVE_BYTES = 64 * 1024
_ACCEPTS_A_TURN = 64
_OUT_OF_FILES_PAUSE = 1.0
_TROUBLE_S = 10.0  # since somebody was turned away, and it counts as trouble
_SLOW_S = 1.0


class Server:
    """Accepts and keeps connections until it is closed."""

    def __init__(
        self,
        config: BrokerConfig,
        metrics: BrokerMetrics,
        complaints: Complaints,
        *,
        most_connections: int,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._complaints = complaints
        self._loop = asyncio.get_running_loop()
        self._scratch = memoryview(bytearray(_RECEIVE_BYTES))
        self._memory = FrameMemory(config.limits.requests_in_memory_bytes)
        self._connections: set[Connection] = set()
        self._dispatcher: Dispatcher
        self._limit = most_connections
        self._listener = listen(config.host, config.port, backlog=_BACKLOG, keys=("host", "port"))
        self.port: int = self._listener.getsockname()[1]
        self._trouble, self._trouble_until = "", 0.0
        self._check_timer: asyncio.TimerHandle | None = None

    def start(self, dispatcher: Dispatcher) -> None:
        """Accept connections from now on, and have their requests served; until then they wait."""
        self._dispatcher = dispatcher
        self._loop.add_reader(self._listener.fileno(), self._accept)
        self._check_timer = self._loop.call_later(1.0, self._check)

    async def drain(self, seconds: float) -> None:
        """Accept and serve nothing more, and give replies that are owed some time to leave."""
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
        for connection in self._connections:
            connection.stop_serving()
        deadline = self._loop.time() + seconds
        while self._loop.time() < deadline:
            if all(connection.idle for connection in self._connections):
                break
            await asyncio.sleep(0.01)

    def close(self) -> None:
        """Close everything."""
        if self._check_timer is not None:
            self._check_timer.cancel()
        for connection in tuple(self._connections):
            connection.close()
        self._listener.close()
        self._complaints.close()

    def let_go_of_files(self) -> None:
        """No log can open files any more: who has not read its answer for longest is closed."""
        waiting = [each for each in self._connections if each.holds_files]
        slowest = min(waiting, key=lambda each: each.last_active, default=None)
        if slowest is not None and self._loop.time() - slowest.last_active > _SLOW_S:
            slowest.close("error='responses are not read, and files are needed that wait for it'")

    @property
    def trouble(self) -> str:
        """Why no connection is accepted at the moment; "" if all are."""
        return self._trouble if self._loop.time() < self._trouble_until else ""

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                why = f"error={error.strerror!r}"
                self._complaints.say(ComplaintKind.CANNOT_ACCEPT, "", why, like=why)
                self._be_in_trouble(f"connections cannot be accepted: {error.strerror}")
                self._pause()
                return
            if len(self._connections) >= self._limit:
                # First: who is turned away may ask for the reason at once, of another thread.
                self._be_in_trouble(f"all {self._limit} connections are taken")
                sock.close()
                text = f"client={address[0]}:{address[1]} limit={self._limit}"
                self._complaints.say(ComplaintKind.CONNECTION_REFUSED, str(address[0]), text)
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Left alone, the kernel would keep megabytes for every client that reads slowly.
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.limits.send_buffer_bytes
            )
            self._connections.add(
                Connection(
                    sock,
                    f"{address[0]}:{address[1]}",
                    Caller(str(address[0])),
                    self._dispatcher,
                    self._closed,
                    complaints=self._complaints,
                    loop=self._loop,
                    scratch=self._scratch,
                    memory=self._memory,
                    size_limit=self._dispatcher.size_limit,
                    limits=self._config.limits,
                )
            )
            self._metrics.connections = len(self._connections)

    def _be_in_trouble(self, why: str) -> None:
        self._trouble, self._trouble_until = why, self._loop.time() + _TROUBLE_S

    def _pause(self) -> None:
        """Stop accepting for a moment: the queue of the kernel keeps who comes."""
        self._loop.remove_reader(self._listener.fileno())

        def resume() -> None:
            if self._listener.fileno() >= 0:
                self._loop.add_reader(self._listener.fileno(), self._accept)

        self._loop.call_later(_OUT_OF_FILES_PAUSE, resume)

    def _closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._metrics.connections = len(self._connections)

    def _check(self) -> None:
        now = self._loop.time()
        for connection in tuple(self._connections):
            connection.check_progress(now)
        self._complaints.tick()
        self._check_timer = self._loop.call_later(1.0, self._check)
