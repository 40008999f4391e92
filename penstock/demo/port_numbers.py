"""Ports that are free, for a demonstration that must disturb nobody.

They lie below those that the kernel gives to whoever connects: a client that keeps calling a port
of that range, while its server is away, can be given that very port and be connected to itself.
"""

import random
from pathlib import Path
from typing import Final

from penstock.up.places import HOST, Ports
from serving.ports import is_free

_LOWEST: Final = 10_000
_TRIES: Final = 200
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports() -> Ports:
    """One after the other. Raises OSError if there are none."""
    count = len(Ports._fields)
    highest = max(int(_EPHEMERAL.read_text().split()[0]), _LOWEST + 10 * count)
    chance = random.SystemRandom()
    for _ in range(_TRIES):
        base = chance.randrange(_LOWEST, highest - count)
        if all(is_free(HOST, port) for port in range(base, base + count)):
            return Ports.beginning_at(base)
    raise OSError(f"no {count} free ports one after the other between {_LOWEST} and {highest}")
