"""The folder of a demonstration, and its ports.

The folder was named and stays, or is removed. It also stays where a demonstration failed, for its
logs, or was killed.

The ports are free ones, as a demonstration must disturb nobody. They lie below those that the
kernel gives to whoever connects: a client that keeps calling a port of that range, while its server
is away, can be given that very port and be connected to itself.
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

_REMOVE_SECONDS: Final = 10.0  # for programs that were just killed to be gone
_LOWEST: Final = 10_000
_TRIES: Final = 200
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Folder:
    """A context. `kept` can be set within it; a demonstration that failed leaves its logs, too."""

    def __init__(self, named: Path | None, *, keep: bool) -> None:
        """Raises DemoFailed if the folder that was named has something in it, or can be none."""
        self.kept = keep or named is not None
        try:
            if named is None:
                self.path = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
                return
            self.path = named.absolute()
            self.path.mkdir(PRIVATE, parents=True, exist_ok=True)
            if any(self.path.iterdir()):
                raise DemoFailed(f"{named} is not empty: name another folder with --dir")
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
    """One after the other. Raises OSError if there are none."""
    count = len(Ports._fields) + len(MirrorPorts._fields)
    highest = max(int(_EPHEMERAL.read_text().split()[0]), _LOWEST + 10 * count)
    chance = random.SystemRandom()
    for _ in range(_TRIES):
        base = chance.randrange(_LOWEST, highest - count)
        if all(is_free(HOST, port) for port in range(base, base + count)):
            return Ports.beginning_at(base), MirrorPorts.beginning_at(base)
    raise OSError(f"no {count} free ports one after the other between {_LOWEST} and {highest}")
