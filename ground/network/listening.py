"""Addresses that a program listens on: their exposure, listening sockets, free ports, and messages
for addresses in use."""

import contextlib
import errno
import os
import random
import socket
from collections import deque
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Final

_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST: Final = 10_000
_LAST: Final = 65_535
_ROOM: Final = 1_000
_SPARE: Final = 100  # extra candidates, since some are taken
_MOST_RESERVED: Final = 256
_LISTENING: Final = "0A"  # of /proc/net/tcp

_RESERVED: Final[deque[int]] = deque()  # descriptors


class CannotListen(Exception):
    """The address is in use, not this machine's, or not permitted."""


def listen(host: str, port: int, *, backlog: int, keys: tuple[str, str]) -> socket.socket:
    """Returns a non-blocking listening socket. `keys` name host and port in the config."""
    host_key, port_key = keys
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address, family=family, backlog=backlog)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            owner = who_listens(port) or "another process"
            advice = f"in use by {owner}: stop it, or choose another `{port_key}`"
        elif error.errno == errno.EACCES:
            advice = f"{reason}: choose a `{port_key}` above 1023"
        else:
            advice = f"{reason}: `{host_key}` must be an address of this machine"
        raise CannotListen(f"cannot listen on {host}:{port}: {advice}") from None
    listener.setblocking(False)
    return listener


def check_exposed(key: str, host: str, *, insecure: bool) -> None:
    """Checks that the address is not exposed without `insecure`. Raises ValueError, naming the
    key."""
    if not insecure and not is_loopback(host):
        raise ValueError(
            f"`{key}: {host}` can be reached from other machines without authentication: set "
            "`insecure: true` if that is intended"
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Whether the host is the wildcard address, to which clients cannot connect."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now. Raises OSError if it never could."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def free_ports(host: str, count: int) -> list[int]:
    """Returns distinct ports on which no process listens, and reserves them.

    Where there is room, they lie below the kernel's range for clients. A client could take a port
    in that range before its server does; and a client that keeps connecting to a port in it while
    the server is down can be assigned that very port, and connect to itself. Raises OSError if
    there are too few.
    """
    candidates = server_ports(int(_EPHEMERAL.read_text().split()[0]))
    ports: list[int] = []
    # Unlike `random`, differs between processes with the same seed.
    for port in random.SystemRandom().sample(candidates, min(len(candidates), count + _SPARE)):
        if len(ports) == count:
            break
        if is_free(host, port) and reserve(port):
            ports.append(port)
    if len(ports) < count:
        raise OSError(errno.EADDRINUSE, f"no {count} free ports in {candidates}")
    return ports


def reserve(port: int) -> bool:
    """Reserves a port for a server that does not listen yet; False if another process has reserved
    it.

    The reservation is an abstract socket name, which only one process can have. It ends with the
    process, or after so many further reservations that the server must have started.
    """
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0penstock-port-{port}")
    except OSError:
        name.close()
        return False
    _RESERVED.append(name.detach())
    if len(_RESERVED) > _MOST_RESERVED:
        os.close(_RESERVED.popleft())
    return True


def server_ports(lowest_of_clients: int) -> range:
    """Returns the range in which to search for ports of servers, given the first port that the
    kernel assigns to clients."""
    has_room = lowest_of_clients > _FIRST + _ROOM
    return range(_FIRST, lowest_of_clients if has_room else _LAST + 1)


def who_listens(port: int) -> str | None:
    """Returns the process that listens on the port; None if the kernel hides it, as it does for
    other users' processes."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if not sockets.isdisjoint(_open_in(process)):
                # A name is up to fifteen arbitrary bytes.
                name = (process / "comm").read_text(errors="replace").strip()
                return f"process {process.name} ({name})"
    return None


def _open_in(process: Path) -> Iterator[str]:
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile: others are still open
            yield str(descriptor.readlink())


def _inodes(port: int) -> list[str]:
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    lines = [line for table in tables if table.exists() for line in table.read_text().splitlines()]
    return [
        fields[9]
        for fields in map(str.split, lines)
        if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port
    ]
