"""How rows are kept in files: in which format, with which columns, and packed how.

Not every format has every codec. What comes nearest takes the place of one that is missing, where
there is such a thing: the same algorithm in another frame, or, for JSON, which Spark cannot pack
with zstd, gzip.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from loader.config import FileCompression, FileFormat
from loader.errors import LoaderError

_CODECS: Final = {
    FileFormat.PARQUET: {
        FileCompression.ZSTD: "zstd",
        FileCompression.SNAPPY: "snappy",
        FileCompression.GZIP: "gzip",
        FileCompression.LZ4: "lz4_raw",
        FileCompression.NONE: "none",
    },
    FileFormat.ORC: {
        FileCompression.ZSTD: "zstd",
        FileCompression.SNAPPY: "snappy",
        FileCompression.GZIP: "zlib",
        FileCompression.LZ4: "lz4",
        FileCompression.NONE: "none",
    },
    FileFormat.JSON: {
        FileCompression.ZSTD: "gzip",
        FileCompression.SNAPPY: "snappy",
        FileCompression.GZIP: "gzip",
        FileCompression.LZ4: "lz4",
        FileCompression.NONE: "none",
    },
    FileFormat.AVRO: {
        FileCompression.ZSTD: "zstandard",
        FileCompression.SNAPPY: "snappy",
        FileCompression.GZIP: "deflate",
        FileCompression.NONE: "uncompressed",
    },
}


class RowFormat(msgspec.Struct, frozen=True):
    """How rows are kept in files."""

    format: FileFormat
    compression: FileCompression
    columns: str  # as Spark's JSON

    @property
    def codec(self) -> str:
        return codec(self.format, self.compression)


def codec(format_: FileFormat, compression: FileCompression) -> str:
    """What Spark calls it. Raises LoaderError if the format has nothing like it."""
    found = _CODECS[format_].get(compression)
    if found is None:
        known = ", ".join(_CODECS[format_])
        raise LoaderError(f"`compression: {compression}`: {format_} has {known}")
    return found


def check_format(
    format_: FileFormat, compression: FileCompression, check_avro: Callable[[], None]
) -> None:
    """Raises LoaderError if there is no way to write such files. Avro is a module of Spark's that
    may not be there: `check_avro` raises it then."""
    codec(format_, compression)
    if format_ is FileFormat.AVRO:
        check_avro()
