"""`python -m bench.counted.program DIRECTORY PATH...`: paths, to be run under callgrind.

Callgrind counts nothing until it is told to, which makes imports and preparations ten times as
fast. It is told by a sequence of instructions that do nothing on a processor (valgrind.h), called
through ctypes, so that no compiler and no header is needed. Of each path there are three dumps: of
nothing, of `times` repetitions, and of twice as many. Nothing looks for garbage meanwhile.

For each path, a line says after its name which dumps are its own, or why it cannot be counted, with
a tab between them. What this program imports is in no start's count, so it imports little.
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
        self._dumps = 0

    def start(self) -> None:
        self._tell(_START)
        self.dump()

    def stop(self) -> None:
        self._tell(_STOP)

    def dump(self) -> int:
        """What was counted since the last time goes into the file of this number."""
        self._tell(_DUMP)
        self._dumps += 1
        return self._dumps

    def _tell(self, request: int) -> None:
        self._ask((ctypes.c_uint64 * 6)(request))


def main() -> None:
    directory = Path(sys.argv[1])
    callgrind = Callgrind()
    for name in sys.argv[2:]:
        (directory / name).mkdir()
        try:
            dumps = _counted(name, directory / name, callgrind)
            print(name, *dumps, sep="\t", flush=True)
        except Exception as error:  # noqa: BLE001 (of another commit it may be anything)
            why = " ".join(f"{type(error).__name__}: {error}".split())
            print(name, why, sep="\t", flush=True)


def _counted(name: str, directory: Path, callgrind: Callgrind) -> list[int]:
    path = PATHS[name]
    act = path.prepared(directory)
    if path.times:
        act(2 * path.times)  # as it is once it has run for long
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
