"""Runs a command that dies with its parent: `python -I -S tether.py PARENT_PID COMMAND…`

The kernel kills this process with SIGKILL when the parent ends for any reason, also after the
command has replaced it. Linux ties that to the parent's *thread*, which must therefore live as long
as the parent. It is a separate script because a hook between fork and exec is unsafe in a process
with threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it ended before the line above
        sys.exit("the parent has ended")
    os.execv(command[0], command)  # noqa: S606  # no shell


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
