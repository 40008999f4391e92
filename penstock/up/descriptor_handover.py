"""Runs a command with kept files handed to it: `python -I -S THIS_FILE FD,FD,… COMMAND…`

They become 3, 4, 5 and so on. LISTEN_PID is this process's id, which is known only after the fork.
This is a script, as a hook between fork and exec is unsafe in a process with threads.
LISTEN_FDNAMES already has their names. The numbers ascend, so none is overwritten before it has
been moved."""

import os
import sys

_FIRST = 3


def main(fds: list[int], command: list[str]) -> None:
    for target, fd in enumerate(fds, _FIRST):
        if fd != target:
            os.dup2(fd, target)
            os.close(fd)
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = str(len(fds))
    os.execv(command[0], command)  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main([int(fd) for fd in sys.argv[1].split(",")], sys.argv[2:])
