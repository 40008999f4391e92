"""Options for connected TCP sockets."""

import socket
from contextlib import suppress
from typing import Final

# Sends whenever there is room. Every kernel has it, and any user may choose it.
_PLAIN: Final = b"reno"


def prepare(sock: socket.socket) -> None:
    """Sends small messages at once, and turns off pacing within this machine: on loopback BBR
    cannot measure a rate, and its pauses cost the sender half as much again."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with suppress(OSError):  # reads report a lost peer; the rest is an optimization
        if sock.getsockname()[0] == sock.getpeername()[0]:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _PLAIN)
