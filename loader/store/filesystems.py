"""The Hadoop filesystems on which a file can be created atomically.

A file must appear complete, under a name that no other writer gets. How differs by filesystem:

    hdfs   a temporary file, flushed to disk, renamed without overwriting: one step of the NameNode
    s3a    written under its name, on condition that none exists, which is checked at the end
    other  unknown, so refused: without atomicity, two loaders could corrupt a table

These are the rules of Delta Lake's log stores. `FileSystem.create(overwrite=False)` does not
suffice: on HDFS it is exclusive, but shows the file while it is being written.
"""

from typing import Final

from loader.errors import StoreError

RENAMING: Final = frozenset({"hdfs", "viewfs"})
CONDITIONAL: Final = frozenset({"s3a"})


def check_scheme(scheme: str, root: str) -> None:
    if scheme not in {*RENAMING, *CONDITIONAL}:
        raise StoreError(
            f"{root}: {scheme}:// is not supported, since atomic creation of files is not known to"
            " work there; use hdfs://, s3a:// or file://"
        )
