"""A TCP proxy before a ZooKeeper, to cut the connection at a chosen point."""

import contextlib
import socket
import threading
from typing import Self


class Proxy:
    """Passes bytes on both ways until told otherwise."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._refusing = False
        self._to_ignore = 0
        self._ignored: list[socket.socket] = []
        self._swallowing = False
        self._passing = 0
        self._closed = False
        self._swallowed = threading.Event()
        self._flowing = threading.Event()
        self._flowing.set()
        self._spawn(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Break the connections there are."""
        for connection in tuple(self._sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def lead_to(self, target: tuple[str, int]) -> None:
        """To another server from now on; the connections there are break."""
        self._target = target
        self.cut()

    def refuse(self) -> None:
        """Break the connections there are, and those to come."""
        self._refusing = True
        self.cut()

    def allow(self) -> None:
        self._refusing = False

    def ignore_connections(self, number: int) -> None:
        """The next ones are taken, and nothing is ever said on them."""
        self._to_ignore = number

    @property
    def ignored(self) -> int:
        return len(self._ignored)

    def hold(self) -> None:
        """Pass nothing on any more, and say nothing: as a network that has lost its way."""
        self._flowing.clear()

    def let_go(self) -> None:
        """Pass on what was held, and what is to come."""
        self._flowing.set()

    def swallow_the_next_answer(self, *, after: int = 0) -> None:
        """What the server says next is lost, and with it the connection: it comes too late. So many
        answers before it pass."""
        self._swallowed.clear()
        self._passing = after
        self._swallowing = True

    def wait_until_swallowed(self) -> None:
        assert self._swallowed.wait(60)

    def close(self) -> None:
        self._closed = True
        self.refuse()
        self.let_go()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for thread in tuple(self._threads):
            thread.join()
        self._listener.close()
        for connection in self._ignored:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spawn(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            if self._to_ignore:
                self._to_ignore -= 1
                self._ignored.append(client)
                continue
            try:
                server = socket.create_connection(self._target, timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            self._sockets |= {client, server}
            self._spawn(self._pump, client, server, False)
            self._spawn(self._pump, server, client, True)

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if answers and self._swallowing and self._passing:
                    self._passing -= 1
                elif answers and self._swallowing:
                    self._swallowing = False
                    self._swallowed.set()
                    break
                self._flowing.wait()
                sink.sendall(data)
        for connection in (source, sink):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        source.close()  # each end is closed by the pump that reads it
        self._sockets.discard(source)
