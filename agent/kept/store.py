"""Whoever started this process keeps open files for it, over its death: systemd, or `penstock up`.

What is kept goes there by sd_notify(3)'s protocol: a datagram to NOTIFY_SOCKET says FDSTORE=1 and a
name, and carries the descriptor; FDSTOREREMOVE=1 gives it back by its name. FDSTORE in the
environment says how many may be kept. systemd sets it from release 254 on, the unit of Penstock for
those before; without it nothing is given away, as nobody would keep it. Nothing here waits: a store
that is busy is given the descriptor the next time.

What was kept of an earlier process comes back by sd_listen_fds(3): LISTEN_PID says for which
process it is meant, LISTEN_FDS how many there are, from descriptor 3 on, and LISTEN_FDNAMES how
they are called.
"""

import os
import socket
from array import array
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Final

import msgspec

from ground.supervisor import notify_address

_NOT_POLLED: Final = "FDPOLL=0"  # what is kept is not watched for a peer that hangs up


class DescriptorStore:
    """One thread's. `most` is how many it keeps, 0 where there is none."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = notify_address(environment)
        text = environment.get("FDSTORE", "")
        known = bool(self._address) and text.isascii() and text.isdigit()
        self.most = int(text) if known else 0
        self._socket: socket.socket | None = None

    def keep(self, name: str, fd: int) -> None:
        """Raises OSError: BlockingIOError if it is busy. Nothing is kept then."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [fd]))
        message = f"FDSTORE=1\n{_NOT_POLLED}\nFDNAME={name}".encode()
        self._channel().sendmsg([message], [rights], 0, self._address)

    def give_back(self, name: str) -> None:
        """All that has this name. Raises OSError, as `keep` does."""
        message = f"FDSTOREREMOVE=1\nFDNAME={name}".encode()
        self._channel().sendto(message, self._address)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _channel(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        return self._socket


_FIRST: Final = 3
_VARIABLES: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class HandedOver(msgspec.Struct, frozen=True):
    """An open descriptor, which is for whoever has this to close."""

    name: str
    fd: int


def take_over(environment: MutableMapping[str, str] = os.environ) -> Sequence[HandedOver]:
    """Once in a process's life: the environment does not say it any more afterwards, and children
    inherit nothing of it."""
    pid, count, names = (environment.pop(each, "") for each in _VARIABLES)
    if pid != str(os.getpid()) or not (count.isascii() and count.isdigit()):
        return ()
    called = names.split(":") if names else []
    found = []
    for index in range(int(count)):
        fd = _FIRST + index
        try:
            os.set_inheritable(fd, False)
        except OSError:
            continue  # whoever said so was wrong
        found.append(HandedOver(called[index] if index < len(called) else "", fd))
    return found
