"""How many files this process may have open, and what may have how many of them.

A connection is one; a log that is read or appended to has up to three, and two more segments that
were read. So the limit of the system is cut into shares, once, and none of them can take another's:

    kept             for the map, pages, threads that open, flush and remove, and who administers
    connections      what the configuration asks for, if it fits into three quarters of the rest
    log files        what is left; logs that rest have none open (open_logs.py)
"""

import logging
import resource
from dataclasses import dataclass
from typing import Final, Self

from broker.errors import BrokerError

log = logging.getLogger(__name__)

_LEAST: Final = 256
_KEPT: Final = 96


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The shares."""

    most: int
    connections: int
    log_files: int

    @classmethod
    def claim(cls, connections: int) -> Self:
        """As many as the system allows; told if that is less than what is wanted."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        shares = cls.of(most, connections)
        if shares.connections < connections:
            log.warning(
                "few files: %d may be open (ulimit -Hn, LimitNOFILE): connections=%d wanted=%d "
                "log_files=%d",
                most,
                shares.connections,
                connections,
                shares.log_files,
            )
        return shares

    @classmethod
    def of(cls, most: int, connections: int) -> Self:
        if most < _LEAST:
            raise BrokerError(
                f"this process may have {most} files open, a broker needs {_LEAST} at least: raise "
                "the limit (ulimit -Hn, or LimitNOFILE in its unit)"
            )
        shared = most - _KEPT
        allowed = min(connections, shared * 3 // 4)
        return cls(most, allowed, shared - allowed)
