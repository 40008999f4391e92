"""`python -m bench.counted.program PATH DIRECTORY`: one path, to be run under callgrind.

Callgrind counts nothing until it is told to, which makes imports and preparations ten times as
fast. It is told by a sequence of instructions that do nothing on a processor (valgrind.h), called
through ctypes, so that no compiler and no header is needed. Three dumps follow: of nothing, of
`times` repetitions, and of twice as many. Nothing looks for garbage meanwhile.
"""

import ctypes
import gc
import mmap
import sys
from pathlib import Path
from typing import Final

from bench.counted.paths import PATHS

_DUMP: Final = 0x43540000  # callgrind.h: 'C', 'T', and the number of the request
_START: Final = _DUMP + 4
_REQUEST: Final = bytes.fromhex(
    "4889f8"  # mov rax, rdi: the request and its arguments
    "31d2"  # xor edx, edx: the answer, where nobody hears it
    "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi by 3, 13, 61, 51: as it was
    "4887db"  # xchg rbx, rbx
    "4889d0"  # mov rax, rdx
    "c3"  # ret
)
_PROTOTYPE: Final = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)


class Callgrind:
    """Whom this process is run by. Without it, everything here does nothing."""

    def __init__(self) -> None:
        self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | 4)
        self._code.write(_REQUEST)
        self._ask = _PROTOTYPE(ctypes.addressof(ctypes.c_char.from_buffer(self._code)))
        self._start = (ctypes.c_uint64 * 6)(_START)
        self._dump = (ctypes.c_uint64 * 6)(_DUMP)

    def start(self) -> None:
        self._ask(self._start)

    def dump(self) -> None:
        """What was counted since the last time goes into a file of its own."""
        self._ask(self._dump)


def main() -> None:
    path = PATHS[sys.argv[1]]
    act = path.prepared(Path(sys.argv[2]))
    callgrind = Callgrind()
    if path.times:
        act(2 * path.times)  # as it is once it has run for long
    gc.collect()
    gc.freeze()
    gc.disable()
    callgrind.start()
    callgrind.dump()
    callgrind.dump()
    act(path.times or 1)
    callgrind.dump()
    if path.times:
        act(2 * path.times)
        callgrind.dump()


if __name__ == "__main__":
    main()
