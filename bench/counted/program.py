"""`python -m bench.counted.program DIRECTORY PATH...`: runs paths under callgrind.

Callgrind counts nothing until a client request starts it, which makes imports and preparations ten
times as fast. The request is a sequence of instructions without effect on a processor (valgrind.h),
called through ctypes, so it needs no compiler or header. A path has three dumps: of nothing, of
`times` repetitions, and of twice as many. Garbage collection is off meanwhile.

For each path, the program prints the name and the numbers of its dumps, or why it has no count,
separated by tabs. It imports little: its imports are missing from the count of a start.
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
_STOP: Final = _DUMP + 5
_REQUEST: Final = bytes.fromhex(
    "4889f8"  # mov rax, rdi: the request and its arguments
    "31d2"  # xor edx, edx: the answer without valgrind
    "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi by 3, 13, 61, 51: as it was
    "4887db"  # xchg rbx, rbx
    "4889d0"  # mov rax, rdx
    "c3"  # ret
)
_PROTOTYPE: Final = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)


class Callgrind:
    """The callgrind that runs this process. If there is none, the methods have no effect."""

    def __init__(self) -> None:
        self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | 4)
        self._code.write(_REQUEST)
        self._ask = _PROTOTYPE(ctypes.addressof(ctypes.c_char.from_buffer(self._code)))
        self._dumps = 0

    def start(self) -> None:
        self._send(_START)
        self.dump()

    def stop(self) -> None:
        self._send(_STOP)

    def dump(self) -> int:
        """Writes the counts since the previous dump to a file; returns the number of the dump."""
        self._send(_DUMP)
        self._dumps += 1
        return self._dumps

    def _send(self, request: int) -> None:
        self._ask((ctypes.c_uint64 * 6)(request))


def main() -> None:
    directory = Path(sys.argv[1])
    callgrind = Callgrind()
    for name in sys.argv[2:]:
        (directory / name).mkdir()
        try:
            dumps = _counted(name, directory / name, callgrind)
            print(name, *dumps, sep="\t", flush=True)
        except Exception as error:  # noqa: BLE001 (another commit may raise anything)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            print(name, reason, sep="\t", flush=True)


def _counted(name: str, directory: Path, callgrind: Callgrind) -> list[int]:
    path = PATHS[name]
    act = path.prepared(directory)
    if path.times:
        act(2 * path.times)  # warm up
    gc.collect()
    gc.freeze()
    gc.disable()
    callgrind.start()
    try:
        dumps = [callgrind.dump()]
        for times in (path.times, 2 * path.times) if path.times else (1,):
            act(times)
            dumps.append(callgrind.dump())
    finally:
        callgrind.stop()
        gc.enable()
    return dumps


if __name__ == "__main__":
    main()
