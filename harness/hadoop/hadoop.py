"""Apache Hadoop itself: the class path of HDFS's servers.

The jars come from Maven; if they are unavailable, `hadoop_classpath` is None and `why_no_hadoop`
says why. The version is that of the Hadoop client in PySpark.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.java.maven_jars import JarsUnavailable, MavenJars

VERSION: Final = "3.5.0"
_JARS: Final = MavenJars(
    "Apache Hadoop",
    f"hadoop-{VERSION}",
    # The servers' jar relies on those that its launcher provides: hence all three.
    tuple(
        ("org.apache.hadoop", name, VERSION)
        for name in ("hadoop-hdfs", "hadoop-hdfs-client", "hadoop-common")
    ),
)
# Small and quick to start: these servers live for seconds and hold little.
_JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)


def hadoop_classpath() -> str | None:
    """Returns the class path of HDFS's servers and their dependencies; None if unavailable."""
    return _JARS.classpath


def why_no_hadoop() -> str:
    """Returns the reason why `hadoop_classpath` returns None."""
    return _JARS.why_not


def hadoop_command(
    *arguments: str, configuration: Path, temporary: Path, heap: str, jvm: Sequence[str] = ()
) -> list[str]:
    """Returns the command line of one of Hadoop's main classes. The files of `configuration` come
    first on its class path."""
    classpath = hadoop_classpath()
    if classpath is None:
        raise JarsUnavailable(why_no_hadoop())
    # Jetty's unpacked files would stay in /tmp if the server was killed.
    options = [f"-Xmx{heap}", f"-Djava.io.tmpdir={temporary}", *jvm]
    return ["java", *_JVM, *options, "-cp", f"{configuration}:{classpath}", *arguments]
