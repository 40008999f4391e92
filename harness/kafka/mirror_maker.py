"""Apache Kafka's MirrorMaker 2 in dedicated mode, as its start script runs it: one process that
copies topics from one cluster to another, with default settings except for what a cluster of one
broker needs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.java.maven_jars import MavenJars
from harness.kafka.apache_kafka import JVM, VERSION, KafkaUnavailable
from harness.processes.server_process import RunningServer, ServerProcess

_JARS: Final = MavenJars(
    "MirrorMaker 2",
    f"mirror-maker-{VERSION}",
    (
        ("org.apache.kafka", "connect-mirror", VERSION),
        ("org.slf4j", "slf4j-reload4j", "1.7.36"),
    ),
)
_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
_HEAP: Final = ("-Xms256M", "-Xmx2G")  # of connect-mirror-maker.sh
_COPIES: Final = "task-thread-MirrorSourceConnector"


def mirror_maker_classpath() -> str | None:
    """Returns the class path of MirrorMaker 2; None if unavailable."""
    return _JARS.classpath


def why_no_mirror_maker() -> str:
    """Returns the reason why `mirror_maker_classpath` returns None."""
    return _JARS.why_not


class MirrorMaker(RunningServer):
    """One MirrorMaker 2. The name of a copy is that of the source cluster, a dot, and that of the
    topic."""

    def __init__(
        self,
        directory: Path,
        source: tuple[str, str],
        target: tuple[str, str],
        topics: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`source` and `target`: names and addresses. Raises KafkaUnavailable."""
        classpath = mirror_maker_classpath()
        if classpath is None:
            raise KafkaUnavailable(why_no_mirror_maker())
        directory.mkdir(parents=True, exist_ok=True)
        direction = f"{source[0]}->{target[0]}"
        properties = {
            "clusters": f"{source[0]},{target[0]}",
            f"{source[0]}.bootstrap.servers": source[1],
            f"{target[0]}.bootstrap.servers": target[1],
            f"{direction}.enabled": "true",
            f"{direction}.topics": topics,
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "config.storage.replication.factor": "1",
            "refresh.topics.interval.seconds": "5",  # the default is ten minutes
            "sync.topic.acls.enabled": "false",
            "plugin.discovery": "service_load",  # otherwise it scans all jars
            **(settings or {}),
        }
        file = directory / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        logging = directory / "log4j.properties"
        logging.write_text(
            "log4j.rootLogger=INFO, stderr\n"
            "log4j.appender.stderr=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.stderr.target=System.err\n"
            "log4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.stderr.layout.ConversionPattern=[%d] %p %t %m (%c)%n\n"
        )
        folders = [f"-Dlog4j.configuration=file:{logging}", f"-Djava.io.tmpdir={directory}"]
        options = [*_HEAP, *JVM, *folders, "-cp", classpath]
        self.process = ServerProcess(
            ["java", *options, _MAIN, str(file)], output=directory / "mirror-maker.log"
        )

    def ready(self) -> bool:
        return _COPIES in self.process.log()
