"""A Penstock broker as a child process, run as a user runs it: `python -m penstock broker`.

Its ports and its directory stay the same over all its starts, so that clients find it again. It
counts as started when `/readyz` says so.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.server_process import RunningServer, ServerProcess, free_ports, http_page

REPOSITORY = Path(__file__).resolve().parent.parent


class BrokerProcess(RunningServer):
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
        open_files: int | None = None,
        program: str = "penstock",
    ) -> None:
        """`open_files`: how many it may have, at most. `program`: the module that is run. Where
        `listeners` are among the settings, the first is that of `bootstrap`."""
        directory.mkdir(parents=True, exist_ok=True)
        self.broker_id = broker_id
        self.data_dir = data_dir or directory / "data"
        self.port, self.http_port = free_ports(2)
        self.config = directory / "broker.yaml"
        wanted: dict[str, Any] = {
            "id": broker_id,
            "cluster": "test",
            "http_port": self.http_port,
            "data_dir": str(self.data_dir),
            "zookeeper": zookeeper,
            "topic_defaults": {"partitions": 1, **(topic_defaults or {})},
            **(settings or {}),
        }
        if "listeners" in wanted:
            self.port = wanted["listeners"][0]["port"]
        else:
            wanted = {"host": "127.0.0.1", "port": self.port, **wanted}
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.config.write_text(yaml.safe_dump(wanted))
        limited = () if open_files is None else ("prlimit", f"--nofile={open_files}")
        self.process = ServerProcess(
            [*limited, sys.executable, "-m", program, "broker", "--config", str(self.config)],
            output=directory / "broker.log",
            environment=environment,
            directory=REPOSITORY,
        )

    def run_from(self, checkout: Path) -> None:
        """The next start is of the program there."""
        self.process.directory = checkout

    def ready(self) -> bool:
        return self.http("/readyz")[0] == 200

    def http(self, path: str) -> tuple[int, str]:
        """Status and body of a page of its HTTP port; status 0 while nobody answers."""
        return http_page(self.http_port, path)

    def complaints(self, kind: str) -> int:
        """How many it has counted by now."""
        _, exposed = self.http("/metrics")
        name = re.escape(f'penstock_broker_complaints_total{{kind="{kind}"}}')
        found = re.search(rf"^{name} (\S+)$", exposed, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def rss(self) -> int:
        return self.process.rss()

    def cpu_seconds(self) -> float:
        return self.process.cpu_seconds()

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        return self.data_dir / f"{topic}-{partition}"
