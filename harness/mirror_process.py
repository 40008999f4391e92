"""A Penstock mirror as a child process, run as a user runs it: `python -m penstock mirror`.

Its port stays the same over all its starts. It counts as started when `/readyz` says yes: then both
clusters have been looked at.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.server_process import RunningServer, ServerProcess, free_ports, http_page

REPOSITORY = Path(__file__).resolve().parent.parent


class MirrorProcess(RunningServer):
    """One worker on loopback: `with MirrorProcess(directory, source=…, target=…) as mirror`."""

    def __init__(
        self,
        directory: Path,
        *,
        source: str,
        target: str,
        settings: Mapping[str, object] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.config = directory / "mirror.yaml"
        wanted: dict[str, Any] = {
            "name": "test",
            "source": {"cluster": "dc1", "brokers": source.split(",")},
            "target": {"cluster": "offline", "brokers": target.split(",")},
            "data_dir": str(directory / "data"),
            "http_port": self.port,
            "interval": 0.5,
            "ledger": {"enabled": False},
            **(settings or {}),
        }
        self.config.write_text(yaml.safe_dump(wanted))
        self.process = ServerProcess(
            [sys.executable, "-m", "penstock", "mirror", "--config", str(self.config), *arguments],
            output=directory / "mirror.log",
            directory=REPOSITORY,
        )

    def ready(self) -> bool:
        return http_page(self.port, "/readyz")[0] == 200

    def standing(self) -> dict[str, Any]:
        """What `/api/v1/standing` says; nothing while nobody answers."""
        status, body = http_page(self.port, "/api/v1/standing")
        found: dict[str, Any] = json.loads(body) if status == 200 else {}
        return found

    def partition(self, topic: str, number: int = 0) -> dict[str, Any]:
        """What it says of one partition, by its topic's name at the target."""
        for each in self.standing().get("topics", ()):
            if each["topic"] == topic:
                for partition in each["partitions"]:
                    if partition["partition"] == number:
                        return dict(partition)
        return {}
