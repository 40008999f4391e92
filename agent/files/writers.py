"""Whether somebody can still write to a file that has no name any more.

The kernel gives a lease for reading only where nobody has the file open for writing. It is given
back at once; of a file without a name nobody notices. Whoever would break it meanwhile causes a
signal that is ignored.
"""

import errno
import fcntl
import os
import signal

from agent.files.followed import Followed


def may_be_written(followed: Followed) -> bool:
    """Of one that is open. Where the kernel does not tell (the file is another user's, its file
    system has no leases), whether it was written to after it was seen to have no name."""
    fd = followed.fd
    if fd is None or not followed.nameless or followed.unpacked is not None:
        return False
    try:
        if os.fstat(fd).st_nlink:
            return False
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        is_written = followed.mtime_ns > followed.deleted_mtime_ns
        return error.errno == errno.EAGAIN or is_written
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False
