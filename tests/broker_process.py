"""A Penstock broker as a child process, run as a user runs it: `python -m penstock broker`.

Its ports and its directory stay the same over all its starts, so that clients find it again. It
counts as started when `/readyz` says so.
"""

import http.client
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from tests.server_process import ServerFailed, ServerProcess, free_ports

REPOSITORY = Path(__file__).resolve().parent.parent


class BrokerProcess:
    """One broker on loopback: `with BrokerProcess(directory, zookeeper=...) as broker`."""

    def __init__(
        self,
        directory: Path,
        *,
        zookeeper: str,
        broker_id: int = 1,
        data_dir: Path | None = None,
        topic_defaults: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.broker_id = broker_id
        self.data_dir = data_dir or directory / "data"
        self.port, self.http_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.config = directory / "broker.yaml"
        wanted = {
            "id": broker_id,
            "cluster": "test",
            "host": "127.0.0.1",
            "port": self.port,
            "http_port": self.http_port,
            "data_dir": str(self.data_dir),
            "zookeeper": zookeeper,
            "topic_defaults": {"partitions": 1, **(topic_defaults or {})},
            **(settings or {}),
        }
        self.config.write_text(yaml.safe_dump(wanted))
        self.process = ServerProcess(
            [sys.executable, "-m", "penstock", "broker", "--config", str(self.config)],
            output=directory / "broker.log",
            environment=environment,
            directory=REPOSITORY,
        )

    def start(self, *, within: float = 30) -> None:
        """Returns once the broker has recovered and is registered."""
        self.process.spawn()
        self.process.wait_ready(self.ready, within=within)

    def ready(self) -> bool:
        return self.http("/readyz")[0] == 200

    def http(self, path: str) -> tuple[int, str]:
        """Status and body of a page of its HTTP port; status 0 while nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def kill(self) -> None:
        self.process.kill()

    def terminate(self, *, within: float = 30) -> int:
        return self.process.terminate(within=within)

    def restart(self, *, within: float = 30) -> None:
        """SIGKILL, and a new start on the same directory and ports."""
        self.kill()
        self.start(within=within)

    def rss(self) -> int:
        return self.process.rss()

    def cpu_seconds(self) -> float:
        return self.process.cpu_seconds()

    def log(self) -> str:
        return self.process.log()

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        return self.data_dir / f"{topic}-{partition}"

    def stop(self) -> None:
        """Ends it gently, and by force if it takes too long."""
        if self.process.alive:
            try:
                self.terminate()
            except ServerFailed:
                self.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
