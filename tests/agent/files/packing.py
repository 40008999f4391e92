"""Archives, as the tools of their formats make them."""

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import zstandard

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,  # as its tool does
}


def lines(first: int, last: int) -> str:
    return "".join(f"{number:06}\n" for number in range(first, last))


def pack(path: Path, suffix: str = "gz", *, name: str = "") -> Path:
    """As gzip does it, with the times of the file."""
    status = path.stat()
    archive = path.with_name(name or f"{path.name}.{suffix}")
    archive.write_bytes(PACKERS[suffix](path.read_bytes()))
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()
    return archive
