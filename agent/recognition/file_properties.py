"""Reads the properties of an open file that `identity` compares: creation time and bytes.

`os.stat` does not have the creation time, which is the only property that always differs between
two files with the same device and inode, one after the other.
"""

import ctypes
import errno
import fcntl
import os
import signal
import struct
from typing import Final

from agent.recognition.identity import FULL, TAIL

_AT_EMPTY_PATH: Final = 0x1000
_STATX_BTIME: Final = 0x800
_SIZE: Final = 256
_MASK: Final = struct.Struct("=I")
_BIRTH: Final = struct.Struct("=qI")
_BIRTH_AT: Final = 80

_SAMPLES: Final = 32
_SAMPLE_BYTES: Final = 4096

_statx = getattr(ctypes.CDLL(None), "statx", None)
if _statx is not None:
    _statx.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_char_p,
    )


def born_ns(fd: int) -> int:
    """The creation time by the clock of the file system; 0 if unknown."""
    status = ctypes.create_string_buffer(_SIZE)
    if _statx is None or _statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, status) != 0:
        return 0
    (mask,) = _MASK.unpack_from(status)
    seconds, nanoseconds = _BIRTH.unpack_from(status, _BIRTH_AT)
    return seconds * 1_000_000_000 + nanoseconds if mask & _STATX_BTIME else 0


def is_open_for_writing(fd: int) -> bool | None:
    """Whether a process has the file open for writing. None if the kernel cannot tell: another
    user's file, or a file system without leases.

    The kernel grants a read lease only if no process has. The lease is released at once, and has no
    effect on other processes. A process that would break it causes a signal, which is ignored.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def read_head(fd: int) -> bytes:
    return os.pread(fd, FULL, 0)


def read_tail(fd: int, position: int) -> bytes:
    """The bytes before a position; fewer if the file is smaller."""
    length = min(TAIL, position)
    return os.pread(fd, length, position - length)


def same_content(first: int, other: int, size: int) -> bool:
    """Whether the first `size` bytes of two open files agree, by samples.

    Up to 128 KiB all bytes are compared; beyond, evenly spaced blocks including the last.
    """
    last_start = max(0, size - _SAMPLE_BYTES)
    step = max(_SAMPLE_BYTES, last_start // (_SAMPLES - 1))
    for position in sorted({*range(0, last_start, step), last_start}):
        length = min(_SAMPLE_BYTES, size - position)
        block = os.pread(first, length, position)
        if len(block) < length or block != os.pread(other, length, position):
            return False
    return True
