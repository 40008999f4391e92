"""Locates Java and ZooKeeper's jars on this machine.

PySpark includes ZooKeeper; so does Debian's `libzookeeper-java`. The class path contains only the
jars that the server needs: with all of Spark's, Java would start more slowly.
"""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Final

from cluster.errors import NoJars, NoJava

DEBIAN_JARS: Final = Path("/usr/share/java")

# Both ZooKeepers log through SLF4J: PySpark's to Log4j 2, Debian's to Log4j 1.
_NEEDED: Final = ("zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
# ZooKeeper's TLS needs Netty, which PySpark includes; Debian has a separate package.
_FOR_TLS: Final = (
    *("netty-buffer", "netty-codec", "netty-codec-base", "netty-common", "netty-handler"),
    *("netty-resolver", "netty-transport", "netty-transport-classes-epoll"),
    "netty-transport-native-unix-common",
)
_LOGGING: Final = (("log4j-api", "log4j-core", "log4j-slf4j2-impl"), ("slf4j-log4j12", "log4j-1.2"))


def find_java() -> Path:
    java_home = os.environ.get("JAVA_HOME")
    java = shutil.which(
        "java", path=Path(java_home) / "bin" if java_home else None
    ) or shutil.which("java")
    if java is None:
        raise NoJava(
            "an embedded ZooKeeper needs Java, which is neither on the PATH nor in JAVA_HOME: "
            "apt install default-jre-headless"
        )
    return Path(java).absolute()


def find_class_path(jars: Path | None = None) -> str:
    """The class path of ZooKeeper's server: from `jars` if given, else PySpark's, else Debian's."""
    if jars is not None:
        if not any(jars.glob("zookeeper*.jar")):
            raise NoJars(f"{jars} contains no zookeeper*.jar")
        return _class_path_in(jars.absolute()) or str(jars.absolute() / "*")
    for directory in (_pyspark_jars(), DEBIAN_JARS):
        if directory is not None and (class_path := _class_path_in(directory)) is not None:
            return class_path
    raise NoJars(
        "an embedded ZooKeeper needs ZooKeeper's jars, and they are neither in PySpark nor in "
        f"{DEBIAN_JARS}: pip install pyspark, or apt install zookeeper, or name a running "
        "ZooKeeper in `zookeeper: host:port`"
    )


def find_tls_class_path(jars: Path | None = None) -> str:
    """The class path including ZooKeeper's dependencies for TLS."""
    class_path = find_class_path(jars)
    directory = Path(class_path.partition(":")[0]).parent
    netty_jars = [_jar(directory, name) for name in _FOR_TLS]
    if None in netty_jars:
        raise NoJars(f"{directory} lacks some of Netty's jars, which ZooKeeper needs for TLS")
    return ":".join([class_path, *map(str, netty_jars)])


def _pyspark_jars() -> Path | None:
    spec = importlib.util.find_spec("pyspark")  # finds it without importing it
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "jars"


def _class_path_in(directory: Path) -> str | None:
    netty_files = [_jar(directory, name) for name in _NEEDED]
    if None in netty_files:
        return None
    for names in _LOGGING:
        logging_jars = [_jar(directory, name) for name in names]
        if None not in logging_jars:
            return ":".join(str(jar) for jar in netty_files + logging_jars)
    return None


def _jar(directory: Path, name: str) -> Path | None:
    """`name.jar`, or `name-1.2.3.jar`, but not `name-other-1.2.jar`."""
    unversioned_jar = directory / f"{name}.jar"
    if unversioned_jar.exists():
        return unversioned_jar
    return next(iter(sorted(directory.glob(f"{name}-[0-9]*.jar"), reverse=True)), None)
