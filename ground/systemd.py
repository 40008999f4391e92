"""Notifies systemd about a service of `Type=notify`: sd_notify(3).

Messages are datagrams to the socket in NOTIFY_SOCKET; without it, nothing is sent. A message that
cannot be sent is dropped: the supervisor's trouble must not stop the program.
"""

import os
import socket
import time
from collections.abc import Mapping

READY = "READY=1"
STOPPING = "STOPPING=1"
ALIVE = "WATCHDOG=1"


class Supervisor:
    """systemd, if it started this process."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = notify_address(environment)
        self.watchdog_seconds = _watchdog_seconds(environment)

    @property
    def listens(self) -> bool:
        """Whether systemd started this process and expects notifications."""
        return bool(self._address)

    def tell(self, *states: str) -> None:
        """Sends all states in one message: `tell(READY, status("5 files"))`."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
                channel.setblocking(False)
                channel.sendto("\n".join(states).encode(), self._address)
        except OSError:
            pass  # it is restarting or busy: the next message comes soon


def notify_address(environment: Mapping[str, str]) -> str:
    """Returns the address of systemd's notification socket; empty if this process was not started
    with one."""
    address = environment.get("NOTIFY_SOCKET", "")
    # An abstract socket's name is written with @ for its leading zero byte.
    return "\0" + address[1:] if address.startswith("@") else address


def status(text: str) -> str:
    return f"STATUS={' '.join(text.split())}"


def reloading() -> str:
    """Returns the notification of a reload, after which READY must follow. It includes the time, as
    `Type=notify-reload` requires."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def needs(seconds: float) -> str:
    """Returns the notification that starting or stopping may take this much longer."""
    return f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}"


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    """The watchdog timeout; 0 without one. Another process's watchdog does not count."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1_000_000 if text.isascii() and text.isdigit() else 0.0


async def stay_alive(manager: Supervisor) -> None:
    """Notifies the watchdog from the event loop as long as the loop runs; returns at once without a
    watchdog. Must be cancelled."""
    # Saves megabytes in programs without an event loop.
    import asyncio  # noqa: PLC0415

    while manager.watchdog_seconds:
        manager.tell(ALIVE)
        await asyncio.sleep(manager.watchdog_seconds / 3)
