"""What a program or library in ELF's format asks of the system: libraries, and versions of glibc.

It reads files of 64 bits, low byte first: all that bundles hold. What lies outside of a file is
refused, not guessed.
"""

import struct
from pathlib import Path
from typing import Final

import msgspec

_PT_LOAD: Final = 1
_PT_DYNAMIC: Final = 2
_DT_NEEDED: Final = 1
_DT_STRTAB: Final = 5
_DT_VERNEED: Final = 0x6FFFFFFE
_DT_VERNEEDNUM: Final = 0x6FFFFFFF
_MOST_ENTRIES: Final = 10_000


class Needs(msgspec.Struct, frozen=True):
    """`versions`: as they stand in the file, like GLIBC_2.17."""

    machine: int
    libraries: tuple[str, ...]
    versions: tuple[str, ...]

    def glibc(self) -> tuple[int, ...]:
        """The youngest glibc of which it needs anything; (0,) if it needs none."""
        numbered = (each.removeprefix("GLIBC_") for each in self.versions if "GLIBC_2" in each)
        return max((tuple(map(int, each.split("."))) for each in numbered), default=(0,))


def is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def needs(path: Path) -> Needs:
    try:
        return _needs(path.read_bytes())
    except (struct.error, ValueError) as error:
        raise ValueError(f"{path} is damaged, or no ELF file of 64 bits: {error}") from error


def _needs(data: bytes) -> Needs:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("its header says something else")
    (machine,) = struct.unpack_from("<H", data, 18)
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", data, start + n * size) for n in range(count)]
    # Each: where it lies in memory, where in the file, how long it is.
    loaded: list[tuple[int, int, int]] = [
        (each[3], each[2], each[5]) for each in headers if each[0] == _PT_LOAD
    ]

    def in_file(address: int) -> int:
        for memory, file, length in loaded:
            if memory <= address < memory + length:
                return address - memory + file
        raise ValueError(f"nothing of the file is at address {address:#x}")

    libraries: list[int] = []
    entries: dict[int, int] = {}
    for dynamic in (each for each in headers if each[0] == _PT_DYNAMIC):
        for at in range(dynamic[2], dynamic[2] + dynamic[5], 16):
            key, value = struct.unpack_from("<QQ", data, at)
            if key == _DT_NEEDED:
                libraries.append(value)
            elif key:
                entries[key] = value
    if _DT_STRTAB not in entries:
        return Needs(machine, (), ())
    strings = in_file(entries[_DT_STRTAB])

    def text(offset: int) -> str:
        end = data.index(b"\0", strings + offset)
        return data[strings + offset : end].decode("ascii")

    versions = []
    at = in_file(entries[_DT_VERNEED]) if _DT_VERNEED in entries else 0
    for _ in range(min(entries.get(_DT_VERNEEDNUM, 0), _MOST_ENTRIES)):
        _, number, _, first, following = struct.unpack_from("<HHIII", data, at)
        one = at + first
        for _ in range(number):
            _, _, _, name, next_one = struct.unpack_from("<IHHII", data, one)
            versions.append(text(name))
            one += next_one
        at += following
    return Needs(machine, tuple(map(text, libraries)), tuple(sorted(set(versions))))
