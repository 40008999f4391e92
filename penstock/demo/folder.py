"""The folder and the ports of a demonstration.

A folder that was named stays; a temporary one is removed, unless the demonstration failed or was
killed.

The ports are free ones below the kernel's ephemeral range: a client that keeps connecting to a port
of that range while its server is down may be given that port itself, and connect to itself.
"""

import random
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ground.network.listening import is_free
from penstock.demo.watch import DemoFailed
from penstock.directory.places import HOST, PRIVATE, MirrorPorts, Ports

_REMOVE_SECONDS: Final = 10.0  # programs that were just killed may still write
_LOWEST: Final = 10_000
_TRIES: Final = 200
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Folder:
    """The folder of a demonstration. A context that removes the folder at the end, unless `kept` is
    set or the demonstration failed."""

    def __init__(self, directory: Path | None, *, keep: bool) -> None:
        """Raises DemoFailed if the named folder is not empty, or cannot be used."""
        self.kept = keep or directory is not None
        try:
            if directory is None:
                self.path = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
                return
            self.path = directory.absolute()
            self.path.mkdir(PRIVATE, parents=True, exist_ok=True)
            if any(self.path.iterdir()):
                raise DemoFailed(f"{directory} is not empty: name another folder with --dir")
        except OSError as error:
            raise DemoFailed(f"{error.filename} cannot be used: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.kept |= isinstance(error, DemoFailed)
        deadline = time.monotonic() + _REMOVE_SECONDS
        while not self.kept and self.path.exists() and time.monotonic() < deadline:
            shutil.rmtree(self.path, ignore_errors=True)


def free_ports() -> tuple[Ports, MirrorPorts]:
    """Returns consecutive free ports. Raises OSError if there are none."""
    count = len(Ports._fields) + len(MirrorPorts._fields)
    limit = max(int(_EPHEMERAL.read_text().split()[0]), _LOWEST + 10 * count)
    rng = random.SystemRandom()
    for _ in range(_TRIES):
        base = rng.randrange(_LOWEST, limit - count)
        if all(is_free(HOST, port) for port in range(base, base + count)):
            return Ports.beginning_at(base), MirrorPorts.beginning_at(base)
    raise OSError(f"no {count} consecutive free ports between {_LOWEST} and {limit}")
