"""Servers that answer as a test says, byte by byte."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Peer = Callable[[socket.socket], None]


@contextmanager
def peer(serve: Peer, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Its port. `serve` has one connection after another; its end closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                taken.append(connection)
                with connection, suppress(OSError):
                    if tls is None:
                        serve(connection)
                        continue
                    with tls.wrap_socket(connection, server_side=True) as encrypted:
                        taken.append(encrypted)
                        serve(encrypted)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for each in taken:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            thread.join()


def request(connection: socket.socket) -> bytes:
    """Its head; empty if nothing came any more."""
    head = b""
    while b"\r\n\r\n" not in head:
        received = connection.recv(65_536)
        if not received:
            return b""
        head += received
    return head


def answer(body: bytes, *, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n\r\n".encode() + body
