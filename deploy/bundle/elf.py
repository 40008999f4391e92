"""Reads from an ELF file which libraries and which versions of glibc it needs.

Only 64-bit little-endian files, the only ones in bundles. An offset beyond the file's end raises
ValueError.
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
    """The libraries that a file needs. `versions` are symbol versions such as GLIBC_2.17."""

    machine: int
    libraries: tuple[str, ...]
    versions: tuple[str, ...]

    def glibc(self) -> tuple[int, ...]:
        """The oldest version of glibc that suffices; (0,) if the file needs none."""
        numbers = (name.removeprefix("GLIBC_") for name in self.versions if "GLIBC_2" in name)
        return max((tuple(map(int, number.split("."))) for number in numbers), default=(0,))


def is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def needs(path: Path) -> Needs:
    try:
        return _needs(path.read_bytes())
    except (struct.error, ValueError) as error:
        raise ValueError(f"{path} is damaged, or not a 64-bit ELF file: {error}") from error


def _needs(data: bytes) -> Needs:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("the header is not that of a 64-bit little-endian file")
    (machine,) = struct.unpack_from("<H", data, 18)
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", data, start + i * size) for i in range(count)]
    # (address in memory, offset in the file, length) of each loaded segment.
    segments: list[tuple[int, int, int]] = [
        (header[3], header[2], header[5]) for header in headers if header[0] == _PT_LOAD
    ]

    def in_file(address: int) -> int:
        for memory_address, file, length in segments:
            if memory_address <= address < memory_address + length:
                return address - memory_address + file
        raise ValueError(f"no segment contains address {address:#x}")

    libraries: list[int] = []
    entries: dict[int, int] = {}
    for dynamic_header in (header for header in headers if header[0] == _PT_DYNAMIC):
        for position in range(dynamic_header[2], dynamic_header[2] + dynamic_header[5], 16):
            key, value = struct.unpack_from("<QQ", data, position)
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
    position = in_file(entries[_DT_VERNEED]) if _DT_VERNEED in entries else 0
    for _ in range(min(entries.get(_DT_VERNEEDNUM, 0), _MOST_ENTRIES)):
        _, count, _, first_offset, step = struct.unpack_from("<HHIII", data, position)
        auxiliary_position = position + first_offset
        for _ in range(count):
            _, _, _, name, auxiliary_step = struct.unpack_from("<IHHII", data, auxiliary_position)
            versions.append(text(name))
            auxiliary_position += auxiliary_step
        position += step
    return Needs(machine, tuple(map(text, libraries)), tuple(sorted(set(versions))))
