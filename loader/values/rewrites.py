"""Rewrites of an hour: files that are replaced by others with the same rows.

A manifest names the files that go (`removes`) and those that come (`adds`), so readers see either
all of the former or all of the latter. An hour is rewritten when it is closed, to merge its small
files and to give all of them the table's columns; and by runs of kind REWRITE, which do nothing
else.
"""

from enum import StrEnum

import msgspec

from loader.values.tables import UNKNOWN_DIGEST, Digest, Hour


class RewriteReason(StrEnum):
    """The reason for a run of kind REWRITE."""

    COLUMNS = "columns"  # files had columns of an earlier schema
    SMALL_FILES = "small files"


class Rewrite(msgspec.Struct, frozen=True):
    """Files of an hour that are to be replaced."""

    hour: Hour
    files: tuple[str, ...]
    bytes: int
    files_wanted: int


class RewrittenFile(msgspec.Struct, frozen=True):
    """A new file. Paths are relative to the root."""

    staged: str
    rows: int
    bytes: int
    suffix: str = ".parquet"
    digest: Digest = UNKNOWN_DIGEST


class Rewritten(msgspec.Struct, frozen=True):
    """A rewrite and its new files, which are staged and verified."""

    rewrite: Rewrite
    files: tuple[RewrittenFile, ...]
