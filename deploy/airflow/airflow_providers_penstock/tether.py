"""Runs a command that gets SIGTERM when its parent ends: `python -I -S tether.py PARENT COMMAND…`

A task may be killed by SIGKILL, without a chance to end its load, which would then keep the next
one out. The kernel sends the signal also after the command has replaced this process. It is a
separate script because a hook between fork and exec is unsafe in a process with threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it ended before the line above
        sys.exit("the task has ended")
    try:
        os.execv(command[0], command)  # noqa: S606  no shell
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
