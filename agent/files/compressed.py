"""Files that are compressed are no logs any more: they are not read."""

from typing import Final

SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".lzma", ".Z", ".zip", ".7z")

_BEGINNINGS: Final = (
    b"\x1f\x8b\x08",  # gzip
    b"\x1f\x9d",  # compress
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",  # zstd
    b"\x04\x22\x4d\x18",  # lz4
    b"PK\x03\x04",
    b"7z\xbc\xaf\x27\x1c",
)


def has_compressed_name(path: str) -> bool:
    return path.endswith(SUFFIXES)


def without_compression(name: str) -> str:
    """The name that the file had before."""
    return name[: name.rindex(".")] if has_compressed_name(name) else name


def is_compressed(head: bytes) -> bool:
    bzip2 = head.startswith(b"BZh") and head[4:10] == b"1AY&SY"
    return bzip2 or head.startswith(_BEGINNINGS)
