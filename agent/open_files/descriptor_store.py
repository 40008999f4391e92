"""The descriptor store of the supervisor, systemd or `penstock up`: keeps open files over a crash.

Descriptors are sent by the protocol of sd_notify(3): a datagram to NOTIFY_SOCKET has FDSTORE=1 and
a name, and carries the descriptor; FDSTOREREMOVE=1 gives it back by name. FDSTORE in the
environment is the number that may be kept: systemd sets it since release 254, Penstock's unit for
earlier releases; without it there is no store. Calls do not wait: the caller repeats what a busy
store did not take.

Descriptors of an earlier process come back by sd_listen_fds(3): LISTEN_PID is the process they are
meant for, LISTEN_FDS their number, from descriptor 3 on, and LISTEN_FDNAMES their names.
"""

import os
import socket
from array import array
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Final

import msgspec

from ground.systemd import notify_address

_NOT_POLLED: Final = "FDPOLL=0"  # the store does not watch descriptors for hang-ups


class DescriptorStore:
    """The descriptor store. Belongs to one thread. `most` is its capacity; 0 if there is none."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = notify_address(environment)
        text = environment.get("FDSTORE", "")
        has_store = bool(self._address) and text.isascii() and text.isdigit()
        self.most = int(text) if has_store else 0
        self._socket: socket.socket | None = None

    def keep(self, name: str, fd: int) -> None:
        """Sends a descriptor to the store. Raises OSError, or BlockingIOError if the store is busy;
        the descriptor is then not kept."""
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [fd]))
        message = f"FDSTORE=1\n{_NOT_POLLED}\nFDNAME={name}".encode()
        self._channel().sendmsg([message], [rights], 0, self._address)

    def give_back(self, name: str) -> None:
        """Removes the descriptors of this name. Raises OSError like `keep`."""
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
    """A descriptor from the store; its receiver closes it."""

    name: str
    fd: int


def take_over(environment: MutableMapping[str, str] = os.environ) -> Sequence[HandedOver]:
    """Takes the descriptors of an earlier process, once: it removes the variables from the
    environment, so that children inherit nothing."""
    pid, count, names = (environment.pop(variable, "") for variable in _VARIABLES)
    if pid != str(os.getpid()) or not (count.isascii() and count.isdigit()):
        return ()
    fd_names = names.split(":") if names else []
    descriptors = []
    for index in range(int(count)):
        fd = _FIRST + index
        try:
            os.set_inheritable(fd, False)
        except OSError:
            continue  # LISTEN_FDS was wrong
        descriptors.append(HandedOver(fd_names[index] if index < len(fd_names) else "", fd))
    return descriptors
