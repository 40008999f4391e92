"""When a file was made, which `os.stat` does not tell: of two files that had the same device and
inode, one after the other, it is the only thing that always differs.
"""

import ctypes
import struct
from typing import Final

_AT_EMPTY_PATH: Final = 0x1000
_STATX_BTIME: Final = 0x800
_SIZE: Final = 256
_MASK: Final = struct.Struct("=I")
_BIRTH: Final = struct.Struct("=qI")
_BIRTH_AT: Final = 80

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
    """By the clock of the file system; 0 where it does not know."""
    status = ctypes.create_string_buffer(_SIZE)
    if _statx is None or _statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, status) != 0:
        return 0
    (mask,) = _MASK.unpack_from(status)
    seconds, nanoseconds = _BIRTH.unpack_from(status, _BIRTH_AT)
    return seconds * 1_000_000_000 + nanoseconds if mask & _STATX_BTIME else 0
