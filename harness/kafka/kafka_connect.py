"""A worker of Kafka Connect in distributed mode, of either release of Apache Kafka, with the file
connectors. Workers of one group share connectors and tasks; any of them accepts changes over HTTP.
"""

import http
import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from harness.java.maven_jars import MavenJars
from harness.kafka.apache_kafka import NEWEST, QUICK_JVM, VERSION, KafkaUnavailable
from harness.processes.server_process import RunningServer, ServerProcess, free_ports
from harness.processes.waiting import wait_until

_JARS: Final = {
    version: MavenJars(
        "Kafka Connect",
        f"kafka-connect-{version}",
        (
            ("org.apache.kafka", "connect-runtime", version),
            ("org.apache.kafka", "connect-file", version),
            ("org.slf4j", "slf4j-reload4j", "1.7.36"),
        ),
    )
    for version in (VERSION, NEWEST)
}
_STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"
_ANSWERS_WITHIN: Final = 90.0  # seconds; a worker answers once its group is balanced


def connect_classpath(version: str = VERSION) -> str | None:
    """Returns the class path of Kafka Connect; None if unavailable."""
    return _JARS[version].classpath


def why_no_connect(version: str = VERSION) -> str:
    """Returns the reason why `connect_classpath` returns None."""
    return _JARS[version].why_not


class ConnectWorker(RunningServer):
    """A worker: `with ConnectWorker(directory, bootstrap=…, group=…) as worker: worker.put(…)`."""

    def __init__(
        self, directory: Path, *, bootstrap: str, group: str, version: str = VERSION
    ) -> None:
        """Raises KafkaUnavailable."""
        classpath = connect_classpath(version)
        if classpath is None:
            raise KafkaUnavailable(why_no_connect(version))
        directory.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.id = f"127.0.0.1:{self.port}"
        settings: Mapping[str, object] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "listeners": f"http://{self.id}",
            "rest.advertised.host.name": "127.0.0.1",
            "config.storage.topic": f"{group}-configs",
            "offset.storage.topic": f"{group}-offsets",
            "status.storage.topic": f"{group}-status",
            "config.storage.replication.factor": 1,
            "offset.storage.replication.factor": 1,
            "status.storage.replication.factor": 1,
            "offset.storage.partitions": 2,
            "status.storage.partitions": 2,
            "key.converter": _STRINGS,
            "value.converter": _STRINGS,
            "plugin.discovery": "service_load",  # otherwise it scans all jars
            "offset.flush.interval.ms": 500,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "consumer.session.timeout.ms": 6000,  # of sinks
            "consumer.heartbeat.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": 0,  # tasks of dead workers move at once
        }
        (directory / "worker.properties").write_text(
            "".join(f"{key}={value}\n" for key, value in settings.items())
        )
        (directory / "log4j.properties").write_text(
            "log4j.rootLogger=INFO, stderr\n"
            "log4j.appender.stderr=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.stderr.target=System.err\n"
            "log4j.appender.stderr.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.stderr.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
        )
        folders = (
            f"-Dlog4j.configuration=file:{directory / 'log4j.properties'}",
            f"-Djava.io.tmpdir={directory}",
        )
        main_class = "org.apache.kafka.connect.cli.ConnectDistributed"
        self.process = ServerProcess(
            [
                *("java", "-Xmx256m", *QUICK_JVM, *folders, "-cp", classpath),
                *(main_class, str(directory / "worker.properties")),
            ],
            output=directory / "worker.log",
        )

    def ready(self) -> bool:
        return self._ask("GET", "/connectors")[0] == 200

    def put(self, connector: str, settings: Mapping[str, str]) -> None:
        """Creates or changes a connector, retrying during a rebalance; fails if that does not
        succeed."""
        status, answer = 0, None

        def answered() -> bool:
            nonlocal status, answer
            status, answer = self._ask("PUT", f"/connectors/{connector}/config", settings)
            return status != http.HTTPStatus.CONFLICT

        wait_until(answered, within=_ANSWERS_WITHIN, what=f"{connector} is made", every=0.2)
        assert 200 <= status < 300, f"{connector}: {status} {answer}"

    def status(self, connector: str) -> Any:
        """Returns a connector's status; None if the worker does not know it, or does not answer."""
        status, answer = self._ask("GET", f"/connectors/{connector}/status")
        return answer if status == http.HTTPStatus.OK else None

    def _ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWERS_WITHIN)
        headers = {"Content-Type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, json.loads(content) if content else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            return 0, str(error)
        finally:
            connection.close()
