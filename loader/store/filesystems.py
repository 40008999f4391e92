"""On which of Hadoop's filesystems a file can be created so that it is there whole or not at all.

How a file comes to be whole at once, under a name that nobody else gets, differs by filesystem:

    hdfs   a temporary file, flushed to disks, renamed without overwriting: one step of the NameNode
    s3a    written under its name, with the condition that there is none yet, checked at its end
    other  not known, so refused: what is not atomic looks as if it were until two loaders meet

The same rules as in Delta Lake's log stores. `FileSystem.create(overwrite=False)` is none of them:
on HDFS it is exclusive, but shows the file while it is being written.
"""

from typing import Final

from loader.errors import StoreError

RENAMING: Final = frozenset({"hdfs", "viewfs"})
CONDITIONAL: Final = frozenset({"s3a"})


def check_scheme(scheme: str, root: str) -> None:
    if scheme not in {*RENAMING, *CONDITIONAL}:
        raise StoreError(
            f"{root}: how to create a file atomically on {scheme}:// is not known, so two loaders"
            " could commit the same run; roots may be on hdfs://, s3a:// and file://"
        )
