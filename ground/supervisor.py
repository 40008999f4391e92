"""What systemd is told of a program that it started with `Type=notify`: sd_notify(3).

A datagram to the socket that NOTIFY_SOCKET names. Without one, nothing is done. A supervisor that
does not listen is no reason to stop: what cannot be sent is dropped.
"""

import os
import socket
import time
from collections.abc import Mapping

READY = "READY=1"
STOPPING = "STOPPING=1"
ALIVE = "WATCHDOG=1"


class Supervisor:
    """systemd, or nobody."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = notify_address(environment)
        self.watchdog_seconds = _watchdog_seconds(environment)

    @property
    def listens(self) -> bool:
        """Whether there is one."""
        return bool(self._address)

    def tell(self, *states: str) -> None:
        """Says all of them at once: `tell(READY, status("5 files"))`."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.setblocking(False)
                channel.sendto("\n".join(states).encode(), self._address)
        except OSError:
            pass  # it restarts itself, or is busy: the next ping comes soon


def notify_address(environment: Mapping[str, str]) -> str:
    """Where whoever started this process wants to hear of it; empty if nowhere."""
    address = environment.get("NOTIFY_SOCKET", "")
    # An abstract socket's name is written with @ for the zero byte in front.
    return "\0" + address[1:] if address.startswith("@") else address


def status(text: str) -> str:
    return f"STATUS={' '.join(text.split())}"


def reloading() -> str:
    """That must be followed by READY. With the time, as `Type=notify-reload` wants it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def needs(seconds: float) -> str:
    """That starting or stopping may take so much longer."""
    return f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}"


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    """After how long a silence it is killed; 0 if it never is. Another process's is not ours."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1_000_000 if text.isascii() and text.isdigit() else 0.0


async def stay_alive(manager: Supervisor) -> None:
    """Says so from the event loop, again and again, as long as that turns; without a watchdog it
    is not said. To be cancelled."""
    # Those who have no event loop do without the megabytes of it.
    import asyncio  # noqa: PLC0415

    while manager.watchdog_seconds:
        manager.tell(ALIVE)
        await asyncio.sleep(manager.watchdog_seconds / 3)
