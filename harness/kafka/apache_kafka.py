"""Apache Kafka itself, as the tests' oracle and the benchmarks' peer.

Its jars come from Maven; if they are unavailable, `kafka_classpath` is None and `why_no_kafka` says
why. Brokers are of VERSION; clients and tools are also available of NEWEST. A broker runs alone or
in a cluster, on loopback, with the JVM options of Apache Kafka's own start script unless others are
given. It leaves nothing outside of the caller's directory. Every node is broker, controller and
voter at once (KRaft, combined mode).
"""

import functools
import shutil
import socket
import subprocess
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.java.class_archives import with_archive
from harness.java.maven_jars import CACHE, MavenJars
from harness.processes.server_process import (
    RunningServer,
    RunningServers,
    ServerFailed,
    ServerProcess,
    free_ports,
)

VERSION = "3.9.1"
# Its clients no longer support API versions from before Kafka 2.1. Maven Central lacks the tools of
# 4.4.0.
NEWEST = "4.3.1"
_JARS = {
    version: MavenJars(
        "Apache Kafka",
        f"apache-kafka-{version}",
        (
            ("org.apache.kafka", "kafka_2.13", version),
            ("org.apache.kafka", "kafka-tools", version),
            ("org.slf4j", "slf4j-reload4j", "1.7.36"),
        ),
    )
    for version in (VERSION, NEWEST)
}
# The JVM options of bin/kafka-server-start.sh.
JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
COMPILED_ONCE = "-XX:TieredStopAtLevel=1"  # without optimizing, which never pays within seconds
# Options for processes that live for seconds, and cheaper brokers in tests.
QUICK_JVM = (
    "-XX:+UseSerialGC",
    COMPILED_ONCE,
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)
# A new directory's initial cluster state: the same for all clusters of a release, unless there are
# initial users.
_CHECKPOINT = "bootstrap.checkpoint"
_BY_SIGTERM = 143  # a JVM's exit code
_WRITTEN_WITHIN = 300.0  # seconds, on a busy machine


class KafkaUnavailable(Exception):
    """Apache Kafka is not available here; the message says why."""


class ToolFailed(Exception):
    """One of Apache Kafka's tools failed; the message has its output."""


def kafka_classpath(version: str = VERSION) -> str | None:
    """Returns the class path of Apache Kafka and its dependencies; None if unavailable."""
    return _JARS[version].classpath


def why_no_kafka(version: str = VERSION) -> str:
    """Returns the reason why `kafka_classpath` returns None."""
    return _JARS[version].why_not


def java_command(
    *arguments: str,
    directory: Path,
    heap: str = "256m",
    jvm: Sequence[str] = JVM,
    version: str = VERSION,
) -> list[str]:
    """Returns the command line of one of Apache Kafka's main classes, with its logging
    configuration in `directory`. Short-lived JVMs use a class archive."""
    classpath = kafka_classpath(version)
    if classpath is None:
        raise KafkaUnavailable(why_no_kafka(version))
    logging = directory / "log4j.properties"
    if not logging.exists():
        logging.write_text(
            "log4j.rootLogger=WARN, stderr\n"
            "log4j.logger.kafka=INFO\n"
            "log4j.appender.stderr=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.stderr.target=System.err\n"
            "log4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
        )
    if COMPILED_ONCE in jvm:
        jvm = (*jvm, *archived_classes(version))
    folders = [f"-Dlog4j.configuration=file:{logging}", f"-Djava.io.tmpdir={directory}"]
    return ["java", *jvm, f"-Xmx{heap}", *folders, "-cp", classpath, *arguments]


@functools.cache
def archived_classes(version: str) -> tuple[str, ...]:
    """Returns JVM options for an archive that has the classes of a broker, and so most classes of a
    tool."""

    def train(folder: Path, options: tuple[str, ...]) -> bool:
        try:
            with ApacheKafka(folder / "kafka", heap="256m", jvm=options, version=version) as kafka:
                return kafka.process.terminate(within=_WRITTEN_WITHIN) == _BY_SIGTERM
        except ServerFailed:
            return False

    return with_archive("apache-kafka-classes", kafka_classpath(version), train)


def run_tool(
    *arguments: str,
    directory: Path,
    stdin: bytes = b"",
    within: float = 60,
    jvm: Sequence[str] = QUICK_JVM,
    version: str = VERSION,
) -> subprocess.CompletedProcess[bytes]:
    """Runs a main class to its end; returns its standard output and error as bytes."""
    command = java_command(*arguments, directory=directory, jvm=jvm, version=version)
    run = subprocess.run(command, input=stdin, capture_output=True, timeout=within, check=False)
    if run.returncode:
        output = (run.stdout + run.stderr).decode(errors="replace")
        raise ToolFailed(f"{' '.join(arguments)} ended with {run.returncode}:\n{output}")
    return run


def dump_log(paths: Iterable[Path], *, directory: Path, deep: bool = True) -> str:
    """Returns the output of DumpLogSegments for segment, index and snapshot files."""
    files = ",".join(str(path) for path in paths)
    options = ["--deep-iteration"] if deep else []
    arguments = ["kafka.tools.DumpLogSegments", *options, "--files", files]
    run = run_tool(*arguments, directory=directory, within=300)
    return (run.stdout + run.stderr).decode(errors="replace")


def _new_id() -> str:
    """An id for a cluster or a directory."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _keep(file: Path, target: Path) -> None:
    """Copies the file atomically, even if another process does so at the same time."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        copy = Path(shutil.copyfile(file, Path(scratch) / file.name))
        copy.replace(target)


class Quorum(msgspec.Struct, frozen=True):
    """The nodes of one cluster, with the settings that all of them share."""

    cluster_id: str
    controllers: Mapping[int, int]  # each node's controller port

    @staticmethod
    def of(nodes: Sequence[int]) -> "Quorum":
        """Returns a new cluster."""
        return Quorum(_new_id(), dict(zip(nodes, free_ports(len(nodes)), strict=True)))

    @property
    def voters(self) -> str:
        return ",".join(f"{node}@127.0.0.1:{port}" for node, port in self.controllers.items())


class ApacheKafka(RunningServer):
    """An Apache Kafka broker: `with ApacheKafka(directory) as kafka: kafka.bootstrap`."""

    def __init__(
        self,
        directory: Path,
        *,
        settings: Mapping[str, str] | None = None,
        heap: str = "1g",
        jvm: Sequence[str] = JVM,
        protocol: str = "PLAINTEXT",
        beside: Mapping[str, int] | None = None,
        scram: Sequence[str] = (),
        version: str = VERSION,
        node: int = 1,
        quorum: Quorum | None = None,
    ) -> None:
        """`protocol` is that of its listener; `beside` maps protocols to the ports of further
        listeners. `scram` are its initial users. Without a `quorum` it is alone."""
        self.directory = directory
        self.version = version
        self._scram = scram
        self._tools = QUICK_JVM if COMPILED_ONCE in jvm else JVM
        self._node = node
        self._quorum = quorum or Quorum.of([node])
        self.data_dir = directory / "data"
        directory.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        controller = self._quorum.controllers[node]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._properties = directory / "server.properties"
        ports = {protocol: self.port, **(beside or {})}
        advertised = ",".join(f"{port}://127.0.0.1:{ports[port]}" for port in ports)
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": self._quorum.voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{advertised},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{port}:{port}" for port in ports)]
            ),
            "log.dirs": str(self.data_dir),
            # Kafka would delete records by their old timestamps; not while tests run.
            "log.retention.check.interval.ms": str(24 * 3600 * 1000),
            "log.initial.task.delay.ms": str(24 * 3600 * 1000),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(settings or {}),
        }
        self._properties.write_text("".join(f"{key}={properties[key]}\n" for key in properties))
        main = ("kafka.Kafka", str(self._properties))
        command = java_command(*main, directory=directory, heap=heap, jvm=jvm, version=version)
        self.process = ServerProcess(command, output=directory / "kafka.log")

    def spawn(self) -> None:
        """Starts the broker; formats its directory before the first start."""
        if not (self.data_dir / "meta.properties").exists():
            checkpoint = CACHE / f"apache-kafka-{self.version}" / _CHECKPOINT
            if self._scram:
                self._format()
            elif checkpoint.exists():
                self._format_like(checkpoint)
            else:
                self._format()
                _keep(self.data_dir / _CHECKPOINT, checkpoint)
        super().spawn()

    def _format(self) -> None:
        """With Apache Kafka's own tool, which takes a second or more."""
        cluster_id = f"--cluster-id={self._quorum.cluster_id}"
        arguments = ["format", cluster_id, "--config", str(self._properties)]
        for user in self._scram:
            arguments += ["--add-scram", user]
        run_tool(
            *("kafka.tools.StorageTool", *arguments),
            directory=self.directory,
            within=300,
            jvm=self._tools,
            version=self.version,
        )

    def _format_like(self, checkpoint: Path) -> None:
        """Repeats the result of an earlier run of the tool."""
        self.data_dir.mkdir()
        shutil.copyfile(checkpoint, self.data_dir / _CHECKPOINT)
        identity = {
            "version": "1",
            "cluster.id": self._quorum.cluster_id,
            "node.id": str(self._node),
            "directory.id": _new_id(),
        }
        lines = "".join(f"{key}={value}\n" for key, value in identity.items())
        (self.data_dir / "meta.properties").write_text(lines)

    def ready(self) -> bool:
        # The port opens before the broker has left its fenced state; the log line comes after.
        if "Kafka Server started" not in self.process.log():
            return False
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class ApacheKafkaCluster(RunningServers):
    """A cluster of nodes 1, 2, 3 …, all of which are controllers."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        heap: str = "1g",
        jvm: Sequence[str] = JVM,
        version: str = VERSION,
    ) -> None:
        """`settings` apply to every node."""
        ids = range(1, nodes + 1)
        quorum = Quorum.of(ids)
        self.nodes = {
            node: ApacheKafka(
                directory / f"node-{node}",
                settings=settings,
                heap=heap,
                jvm=jvm,
                version=version,
                node=node,
                quorum=quorum,
            )
            for node in ids
        }
        self.servers = tuple(self.nodes.values())

    def stop(self) -> None:
        """Stops all nodes with SIGKILL, since the last one would otherwise wait a minute for the
        lost majority."""
        self.kill()
