"""The Hadoop filesystems on which a file can be created atomically.

A file must appear complete, under a name that no other writer gets. How differs by filesystem:

    hdfs   a temporary file, flushed to disk, renamed without overwriting: one step of the NameNode
    s3a    written under its name, on condition that none exists, which is checked at the end
    other  unknown, so refused: without atomicity, two loaders could corrupt a table

These are the rules of Delta Lake's log stores. `FileSystem.create(overwrite=False)` does not
suffice: on HDFS it is exclusive, but shows the file while it is being written.
"""

from collections.abc import Mapping
from typing import Any, Final

from loader.errors import StoreError

RENAMING: Final = frozenset({"hdfs", "viewfs"})
CONDITIONAL: Final = frozenset({"s3a"})
_HADOOPS: Final = "spark.hadoop."


def check_scheme(scheme: str, root: str) -> None:
    if scheme not in {*RENAMING, *CONDITIONAL}:
        raise StoreError(
            f"{root}: {scheme}:// is not supported, since atomic creation of files is not known to"
            " work there; use hdfs://, s3a:// or file://"
        )


def hadoop_configuration(jvm: Any, settings: Mapping[str, str]) -> Any:
    """Hadoop's configuration in a JVM without a session: files in `HADOOP_CONF_DIR`, and Spark's
    `settings` for Hadoop."""
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    for key, value in settings.items():
        if key.startswith(_HADOOPS):
            configuration.set(key.removeprefix(_HADOOPS), value)
    return configuration
