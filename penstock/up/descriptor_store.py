"""Keeps a program's open files when the program dies, as systemd's file descriptor store does.

The program gets the path of a socket (NOTIFY_SOCKET) and the number of files that may be kept
(FDSTORE). A file sent there with FDSTORE=1 is kept under its name until FDSTOREREMOVE=1, and handed
to the next process (descriptor_handover.py), as sd_notify(3) and sd_listen_fds(3) describe. Other
notifications are ignored.

Messages of other processes are ignored. A file beyond the limit, or under a name that is in use, is
closed. All are closed when `penstock up` ends.
"""

import os
import resource
import select
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_MOST: Final = 1024
_OTHER_FILES: Final = 256
_LEAST: Final = 16
_MESSAGE_BYTES: Final = 4096
_MOST_AT_ONCE: Final = 253  # descriptors in one message, says Linux
_CREDENTIALS: Final = struct.Struct("=iII")  # process, user, group


def most_kept() -> int:
    """Returns the number of files that this process may hold open for programs."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_LEAST, min(_MOST, limit - _OTHER_FILES))


class ProgramDescriptors:
    """The descriptor store of one program. Receives on a thread of its own, so that the program's
    messages never wait for the supervisor. A context."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most_kept() if most is None else most
        self._kept: dict[str, int] = {}
        self._sender = 0  # the process whose messages are accepted
        self._lock = threading.Lock()
        self._closed = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind("")  # a unique abstract address
        self._socket.setblocking(False)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._listen, name="descriptors", daemon=True)
        self._thread.start()

    @property
    def environment(self) -> Mapping[str, str]:
        """Returns environment variables for the program."""
        address = self._socket.getsockname()
        return {"NOTIFY_SOCKET": "@" + address[1:].decode(), "FDSTORE": str(self.most)}

    def listen_to(self, pid: int) -> None:
        """Accepts only messages from this process."""
        with self._lock:
            self._sender = pid

    def kept(self) -> Mapping[str, int]:
        """Returns the kept descriptors by name; the store still owns them."""
        with self._lock:
            self._receive_all()
            return dict(self._kept)

    def close(self) -> None:
        """Closes all kept files. May be called twice."""
        if self._closed:
            return
        self._closed = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._socket.close()
        os.close(self._wake)
        for fd in self._kept.values():
            os.close(fd)
        self._kept.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not self._closed:
            poll.poll()
            with self._lock:
                self._receive_all()

    def _receive_all(self) -> None:
        space = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(4 * _MOST_AT_ONCE)
        while True:
            try:
                message, ancillary, flags, _ = self._socket.recvmsg(
                    _MESSAGE_BYTES, space, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            sender, fds = _unpacked(ancillary)
            is_whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
            self._take(message if sender == self._sender and is_whole else b"", fds)

    def _take(self, message: bytes, fds: list[int]) -> None:
        fields = dict(line.partition("=")[::2] for line in _lines(message))
        name = fields.get("FDNAME", "")
        if fields.get("FDSTOREREMOVE") == "1" and name in self._kept:
            os.close(self._kept.pop(name))
        for fd in fds:
            is_stored = fields.get("FDSTORE") == "1" and bool(name)
            if is_stored and name not in self._kept and len(self._kept) < self.most:
                self._kept[name] = fd
            else:
                os.close(fd)


def _unpacked(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, list[int]]:
    """The sender's process id, and the descriptors."""
    sender, fds = 0, list[int]()
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            sender = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])[0]
        elif level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole_fds = data[: len(data) - len(data) % 4]
            fds += [fd for (fd,) in struct.iter_unpack("=i", whole_fds)]
    return sender, fds


def _lines(message: bytes) -> Iterator[str]:
    with suppress(UnicodeDecodeError):
        yield from message.decode("ascii").splitlines()
