"""Whoever started this process keeps open files for it, over its death: systemd, or `penstock up`.

The protocol is sd_notify(3)'s: a datagram to NOTIFY_SOCKET says FDSTORE=1 and a name, and carries
the descriptor; FDSTOREREMOVE=1 gives it back by its name. FDSTORE in the environment says how many
may be kept. systemd sets it from release 254 on, the unit of Penstock for those before; without it
nothing is given away, as nobody would keep it.

Nothing here waits: a store that is busy is given the descriptor the next time.
"""

import os
import socket
from array import array
from collections.abc import Mapping
from typing import Final

from agent.systemd import notify_address

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
