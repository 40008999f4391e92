"""The format of row files: file format, columns, and compression.

Not every format has every codec. The nearest replaces a missing one if there is any: the same
algorithm in another frame, or gzip for JSON, which Spark cannot compress with zstd.
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
    format: FileFormat
    compression: FileCompression
    columns: str  # as Spark's JSON

    @property
    def codec(self) -> str:
        return codec(self.format, self.compression)


def codec(format_: FileFormat, compression: FileCompression) -> str:
    """Spark's name for the codec. Raises LoaderError if the format has no equivalent."""
    name = _CODECS[format_].get(compression)
    if name is None:
        supported_codecs = ", ".join(_CODECS[format_])
        raise LoaderError(f"`compression: {compression}`: {format_} supports {supported_codecs}")
    return name


def check_format(
    format_: FileFormat, compression: FileCompression, check_avro: Callable[[], None]
) -> None:
    """Checks that files of this format can be written. Raises LoaderError, as does `check_avro` if
    Spark's Avro module is missing."""
    codec(format_, compression)
    if format_ is FileFormat.AVRO:
        check_avro()
