"""A tar of the jars that a ZooKeeper server needs, taken from the installed PySpark.

PySpark is 450 MB, the jars are 9 MB. `zookeeper-jars.lock` pins them by SHA-256; a jar with another
checksum is rejected, so that the tar is reproducible.
"""

import importlib.util
import re
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from shutil import copyfile
from typing import Final

import msgspec

from cluster.zookeeper_server.jars import find_tls_class_path
from deploy.bundle.archives import sha256, write_tar

LOCK: Final = Path(__file__).with_name("zookeeper-jars.lock")
COLUMNS: Final = ", from PySpark: package URL, SHA-256, file"
_NAME: Final = re.compile(r"([a-z0-9-]+?)-([0-9][A-Za-z0-9.]*)\.jar")


class Jar(msgspec.Struct, frozen=True, order=True):
    purl: str
    sha256: str
    file: str

    @property
    def name(self) -> str:
        return self.purl.rpartition("/")[2].partition("@")[0]

    @property
    def version(self) -> str:
        return self.purl.rpartition("@")[2]


def needed(pyspark: Path) -> list[Jar]:
    """Returns the jars in PySpark's wheel that ZooKeeper needs, including those for TLS."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(pyspark) as wheel:
        for name in wheel.namelist():
            if name.startswith("pyspark/jars/") and name.endswith(".jar"):
                wheel.extract(name, folder)
        class_path = find_tls_class_path(Path(folder) / "pyspark/jars")
        return [_read(Path(path)) for path in class_path.split(":")]


def write(path: Path, jars: Iterable[Jar], time: int) -> None:
    """Writes the tar. Raises SystemExit if the installed PySpark has other jars."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "PySpark, which contains ZooKeeper's jars, is not installed: pip install pyspark"
        )
    jar_directory = Path(spec.origin).parent / "jars"
    with tempfile.TemporaryDirectory() as folder:
        for jar in jars:
            source = jar_directory / jar.file
            if not source.is_file() or sha256(source) != jar.sha256:
                raise SystemExit(
                    f"{source} does not match {LOCK.name}: install the PySpark version in "
                    "constraints.txt; if that changed, run `python -m deploy.bundle lock`"
                )
            copyfile(source, Path(folder) / jar.file)
        with path.open("wb") as file:
            write_tar(file, Path(folder), path.name.removesuffix(".tar"), time)


def _read(path: Path) -> Jar:
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise SystemExit(f"jar without a version in its name: {path.name}")
    with zipfile.ZipFile(path) as jar:
        groups = [
            parts[2]
            for parts in (name.split("/") for name in jar.namelist())
            if parts[:2] == ["META-INF", "maven"] and parts[3:] == [match[1], "pom.properties"]
        ]
    kind = f"maven/{groups[0]}" if groups else "generic"
    return Jar(f"pkg:{kind}/{match[1]}@{match[2]}", sha256(path), path.name)
