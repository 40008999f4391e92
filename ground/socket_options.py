"""What is set on a TCP socket once it is connected."""

import socket
from contextlib import suppress
from typing import Final

# Sends whenever there is room. Any kernel has it, and lets everybody choose it.
_PLAIN: Final = b"reno"


def prepare(sock: socket.socket) -> None:
    """What is small is sent at once, and nothing is paced within this machine: there is no path
    whose rate BBR could find, and its pauses cost the sender half as much again."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with suppress(OSError):  # whoever has gone is missed by who reads; the rest is only faster
        if sock.getsockname()[0] == sock.getpeername()[0]:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _PLAIN)
