"""Whether a TCP port is free, and if not, who has it."""

import errno
import socket
from pathlib import Path
from typing import Final

_LISTENING: Final = "0A"  # of /proc/net/tcp


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


def free_port(host: str) -> int:
    """A port that nobody listens on just now."""
    family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(address)
        port: int = probe.getsockname()[1]
        return port


def who_listens(port: int) -> str | None:
    """Number and name of the process, as far as the kernel tells us; others' are hidden."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            for descriptor in (process / "fd").iterdir():
                if str(descriptor.readlink()) in sockets:
                    # A name is any bytes, and cut after fifteen of them.
                    name = (process / "comm").read_text(errors="replace").strip()
                    return f"process {process.name} ({name})"
        except OSError:  # it ended meanwhile, or is somebody else's
            continue
    return None


def _inodes(port: int) -> list[str]:
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    lines = [line for table in tables if table.exists() for line in table.read_text().splitlines()]
    return [
        fields[9]
        for fields in map(str.split, lines)
        if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port
    ]
