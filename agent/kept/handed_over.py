"""What a descriptor store kept of an earlier process, and hands to this one: sd_listen_fds(3).

LISTEN_PID says for which process it is meant, LISTEN_FDS how many there are, from descriptor 3 on,
and LISTEN_FDNAMES how they are called.
"""

import os
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Final

_FIRST: Final = 3
_VARIABLES: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


@dataclass(frozen=True, slots=True)
class HandedOver:
    """An open descriptor, which is for whoever has this to close."""

    name: str
    fd: int


def take_over(environment: MutableMapping[str, str] = os.environ) -> Sequence[HandedOver]:
    """Once in a process's life: the environment does not say it any more afterwards, and children
    inherit nothing of it."""
    pid, count, names = (environment.pop(each, "") for each in _VARIABLES)
    if pid != str(os.getpid()) or not (count.isascii() and count.isdigit()):
        return ()
    called = names.split(":") if names else []
    found = []
    for index in range(int(count)):
        fd = _FIRST + index
        try:
            os.set_inheritable(fd, False)
        except OSError:
            continue  # whoever said so was wrong
        found.append(HandedOver(called[index] if index < len(called) else "", fd))
    return found
