"""Apache Kafka itself, as the oracle of the tests and the peer of the benchmarks.

Its jars come by Maven; where they cannot be had, `kafka_classpath` is None and `why_no_kafka` says
why. Brokers are of VERSION, clients and tools can be had of NEWEST, too. A broker runs alone, or
with others as a cluster, on loopback, with Apache Kafka's own start-script options for the JVM
unless others are asked for; its directory is the caller's, and is all it leaves behind. Every node
is broker and controller at once (KRaft, combined mode), and votes.
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

from harness.class_archives import with_archive
from harness.maven_jars import CACHE, MavenJars
from harness.server_process import (
    RunningServer,
    RunningServers,
    ServerFailed,
    ServerProcess,
    free_ports,
)

VERSION = "3.9.1"
# Its clients no longer know the versions of APIs from before Kafka 2.1. Of 4.4.0, the tools are not
# at Maven Central.
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
# What bin/kafka-server-start.sh gives the JVM.
JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
COMPILED_ONCE = "-XX:TieredStopAtLevel=1"  # and not again, for long: in seconds that never pays
# What makes a short life shorter still, and a broker of tests cheaper.
QUICK_JVM = (
    "-XX:+UseSerialGC",
    COMPILED_ONCE,
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)
# What a new directory has beside its identity: what the cluster begins with. It is the same for all
# of a release, but where there are users from the beginning.
_CHECKPOINT = "bootstrap.checkpoint"
_BY_SIGTERM = 143  # a JVM's exit code
_WRITTEN_WITHIN = 300.0  # seconds, where much else begins


class KafkaUnavailable(Exception):
    """Apache Kafka cannot be had here, and why."""


class ToolFailed(Exception):
    """One of Apache Kafka's tools ended with an error; carries what it printed."""


def kafka_classpath(version: str = VERSION) -> str | None:
    """The class path of Apache Kafka and all it needs; None where it cannot be had."""
    return _JARS[version].classpath


def why_no_kafka(version: str = VERSION) -> str:
    """Why `kafka_classpath` is None."""
    return _JARS[version].why_not


def java_command(
    *arguments: str,
    directory: Path,
    heap: str = "256m",
    jvm: Sequence[str] = JVM,
    version: str = VERSION,
) -> list[str]:
    """The command line of a main class of Apache Kafka; its logging is set up in `directory`. One
    that is to live for seconds finds its classes in an archive."""
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
    """Options of a JVM that finds the classes of a broker, and so most of a tool's, in an
    archive."""

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
    """Runs a main class to its end; its standard output and error come back as bytes."""
    command = java_command(*arguments, directory=directory, jvm=jvm, version=version)
    run = subprocess.run(command, input=stdin, capture_output=True, timeout=within, check=False)
    if run.returncode:
        said = (run.stdout + run.stderr).decode(errors="replace")
        raise ToolFailed(f"{' '.join(arguments)} ended with {run.returncode}:\n{said}")
    return run


def dump_log(paths: Iterable[Path], *, directory: Path, deep: bool = True) -> str:
    """What Apache Kafka's DumpLogSegments says about segment, index and snapshot files."""
    files = ",".join(str(path) for path in paths)
    options = ["--deep-iteration"] if deep else []
    arguments = ["kafka.tools.DumpLogSegments", *options, "--files", files]
    run = run_tool(*arguments, directory=directory, within=300)
    return (run.stdout + run.stderr).decode(errors="replace")


def _new_id() -> str:
    """Of a cluster or a directory."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _keep(file: Path, kept: Path) -> None:
    """A copy that is there whole or not at all, whoever else is making it."""
    with tempfile.TemporaryDirectory(dir=kept.parent) as own:
        copy = Path(shutil.copyfile(file, Path(own) / file.name))
        copy.replace(kept)


class Quorum(msgspec.Struct, frozen=True):
    """The nodes of one cluster, by what they have to know of each other."""

    cluster_id: str
    controllers: Mapping[int, int]  # where each node's controller listens

    @staticmethod
    def of(nodes: Sequence[int]) -> "Quorum":
        """A cluster that there has not been yet."""
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
        """`protocol` is that of its listener; `beside` has the ports of further ones, by theirs.
        `scram` are users that it has from the beginning. Without a `quorum` it is alone."""
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
        served = ",".join(f"{each}://127.0.0.1:{ports[each]}" for each in ports)
        wanted = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": self._quorum.voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{served},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": served,
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{each}:{each}" for each in ports)]
            ),
            "log.dirs": str(self.data_dir),
            # Records have old times, by which Kafka would delete them: not while tests run.
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
        self._properties.write_text("".join(f"{key}={wanted[key]}\n" for key in wanted))
        main = ("kafka.Kafka", str(self._properties))
        command = java_command(*main, directory=directory, heap=heap, jvm=jvm, version=version)
        self.process = ServerProcess(command, output=directory / "kafka.log")

    def spawn(self) -> None:
        """Formats the directory the first time."""
        if not (self.data_dir / "meta.properties").exists():
            known = CACHE / f"apache-kafka-{self.version}" / _CHECKPOINT
            if self._scram:
                self._format()
            elif known.exists():
                self._format_like(known)
            else:
                self._format()
                _keep(self.data_dir / _CHECKPOINT, known)
        super().spawn()

    def _format(self) -> None:
        """By Apache Kafka's own tool: a second of a processor, and minutes where much else runs."""
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
        """As the tool has done it before."""
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
    """Nodes 1, 2, 3 …, all of them in the quorum of controllers."""

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
        """`settings` are those of each of them."""
        ids = range(1, nodes + 1)
        quorum = Quorum.of(ids)
        self.nodes = {
            each: ApacheKafka(
                directory / f"node-{each}",
                settings=settings,
                heap=heap,
                jvm=jvm,
                version=version,
                node=each,
                quorum=quorum,
            )
            for each in ids
        }
        self.servers = tuple(self.nodes.values())

    def stop(self) -> None:
        """By SIGKILL: the last node would wait a minute for a majority that is gone."""
        self.kill()
