"""Apache Hadoop itself: the class paths of its servers, their configuration and their state.

The jars come from Maven; if they are unavailable, `HDFS_JARS.classpath` is None and `why_not` says
why. The version is that of the Hadoop client in PySpark.
"""

import http.client
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from harness.java.maven_jars import JarsUnavailable, MavenJars

VERSION: Final = "3.5.0"
# A server's jar relies on those that its launcher provides: hence several.
_HDFS: Final = ("hadoop-hdfs", "hadoop-hdfs-client", "hadoop-common")
_YARN: Final = tuple(
    f"hadoop-yarn-server-{part}" for part in ("resourcemanager", "nodemanager", "timelineservice")
)


def _jars(name: str, folder: str, *artifacts: str) -> MavenJars:
    return MavenJars(
        name, folder, tuple(("org.apache.hadoop", artifact, VERSION) for artifact in artifacts)
    )


HDFS_JARS: Final = _jars("Apache Hadoop", f"hadoop-{VERSION}", *_HDFS)
YARN_JARS: Final = _jars("Apache Hadoop YARN", f"hadoop-yarn-{VERSION}", *_YARN, *_HDFS)
# Small and quick to start: these servers live for seconds and hold little.
_JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-Djava.net.preferIPv4Stack=true",
)


def hadoop_command(
    *arguments: str,
    configuration: Path,
    temporary: Path,
    heap: str,
    jvm: Sequence[str] = (),
    jars: MavenJars = HDFS_JARS,
) -> list[str]:
    """Returns the command line of one of Hadoop's main classes. The files of `configuration` come
    first on its class path."""
    classpath = jars.classpath
    if classpath is None:
        raise JarsUnavailable(jars.why_not)
    # Jetty's unpacked files would stay in /tmp if the server was killed.
    options = [f"-Xmx{heap}", f"-Djava.io.tmpdir={temporary}", *jvm]
    return ["java", *_JVM, *options, "-cp", f"{configuration}:{classpath}", *arguments]


def configuration_xml(properties: Mapping[str, str]) -> str:
    """Returns the content of a file such as core-site.xml."""
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f"<configuration>\n{''.join(lines)}</configuration>\n"


def management_bean(port: int, service: str, name: str) -> dict[str, Any]:
    """Returns one of a server's management beans, over HTTP; empty if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", f"/jmx?qry=Hadoop:service={service},name={name}")
        answer = connection.getresponse()
        beans = json.loads(answer.read())["beans"] if answer.status == http.client.OK else []
    except (OSError, http.client.HTTPException):
        return {}
    finally:
        connection.close()
    return beans[0] if beans else {}
