"""Addresses that a program listens on: whether others reach them, a socket there, and what to tell
whoever cannot have one.
"""

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
_SPARE: Final = 100  # that are looked at in vain
_MOST_RESERVED: Final = 256
_LISTENING: Final = "0A"  # of /proc/net/tcp

_RESERVED: Final[deque[int]] = deque()  # descriptors


class CannotListen(Exception):
    """The address is taken, not this machine's, or not allowed."""


def listen(host: str, port: int, *, backlog: int, keys: tuple[str, str]) -> socket.socket:
    """A listening socket that does not block. `keys` are those of host and port in the file."""
    host_key, port_key = keys
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address, family=family, backlog=backlog)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            owner = who_listens(port) or "another process"
            advice = f"{owner} does already: stop it, or choose another `{port_key}`"
        elif error.errno == errno.EACCES:
            advice = f"{reason}: choose a `{port_key}` above 1023"
        else:
            advice = f"{reason}: `{host_key}` must be an address of this machine"
        raise CannotListen(f"cannot listen on {host}:{port}: {advice}") from None
    listener.setblocking(False)
    return listener


def check_exposed(key: str, host: str, *, insecure: bool) -> None:
    """ValueError, which names the configuration's key, unless the address may be listened on."""
    if not insecure and not is_loopback(host):
        raise ValueError(
            f"`{key}: {host}` can be reached from other machines and nobody has to "
            "authenticate: say `insecure: true` if that is meant"
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Whether it stands for all addresses of the machine, and is none to connect to."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there. OSError if it never could: no such address, no right."""
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
    """Ports that nobody listens on just now, all different, and reserved.

    Where there is room, they lie below those that the kernel gives to clients: one of these may be
    a client's before a server has it, and a client that keeps connecting to one while its server is
    down can be given that very port, and be connected to itself. OSError if there are not so many.
    """
    candidates = server_ports(int(_EPHEMERAL.read_text().split()[0]))
    found: list[int] = []
    # Not those that every process looks at first that was given the same seed.
    for port in random.SystemRandom().sample(candidates, min(len(candidates), count + _SPARE)):
        if len(found) == count:
            break
        if is_free(host, port) and reserve(port):
            found.append(port)
    if len(found) < count:
        raise OSError(errno.EADDRINUSE, f"no {count} free ports in {candidates}")
    return found


def reserve(port: int) -> bool:
    """False if another process of ours has done so, for a server that does not listen there yet.

    It is a name that one process at a time can have, and no file: it is gone when the process is,
    or when it has reserved so many others that the server must have been started.
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
    """Where to look for them, by the first port that the kernel gives to clients."""
    has_room = lowest_of_clients > _FIRST + _ROOM
    return range(_FIRST, lowest_of_clients if has_room else _LAST + 1)


def who_listens(port: int) -> str | None:
    """Number and name of the process, as far as the kernel tells us; others' are hidden."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's
            if not sockets.isdisjoint(_open_in(process)):
                # A name is any bytes, and cut after fifteen of them.
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
