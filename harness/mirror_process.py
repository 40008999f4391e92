"""`penstock mirror` as a child process, run as a user runs it: `python -m penstock mirror`.

Its configuration, its directory and its port stay the same over all its starts, so that its pages
are found again. It counts as started when `/readyz` says so.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.broker_process import REPOSITORY
from harness.server_process import RunningServer, ServerProcess, free_ports, http_page


class MirrorProcess(RunningServer):
    """One worker: `with MirrorProcess(directory, source={…}, target={…}) as mirror`."""

    def __init__(
        self,
        directory: Path,
        *,
        source: Mapping[str, object],
        target: Mapping[str, object],
        settings: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        program: str = "penstock",
    ) -> None:
        """`source` and `target` as in its configuration. `program`: the module that is run."""
        directory.mkdir(parents=True, exist_ok=True)
        (self.http_port,) = free_ports(1)
        self.config = directory / "mirror.yaml"
        self._program, self._environment = program, dict(environment or {})
        wanted: dict[str, Any] = {
            "name": "copies",
            "source": dict(source),
            "target": dict(target),
            "topics": ["*"],
            "http_port": self.http_port,
            "data_dir": str(directory / "data"),
            **(settings or {}),
        }
        self.config.write_text(yaml.safe_dump(wanted))
        self.process = ServerProcess(
            self.command(), output=directory / "mirror.log", environment=environment
        )
        self.process.directory = REPOSITORY

    def command(self, *arguments: str) -> list[str]:
        """`penstock mirror [ARGUMENTS] --config …`."""
        given = [*arguments, "--config", str(self.config)]
        return [sys.executable, "-m", self._program, "mirror", *given]

    def told(self, *arguments: str, within: float = 120) -> subprocess.CompletedProcess[str]:
        """A command beside the worker, run to its end: `told("promote", "dc1.clicks")`."""
        return subprocess.run(
            self.command(*arguments),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )

    def ready(self) -> bool:
        return self.http("/readyz")[0] == 200

    def http(self, path: str) -> tuple[int, str]:
        """Status and body of a page of its HTTP port; status 0 while nobody answers."""
        return http_page(self.http_port, path)

    def standing(self) -> Any:
        """What it says of its partitions; None while nobody answers."""
        status, body = self.http("/api/v1/standing")
        return json.loads(body) if status == 200 else None


def side(
    cluster: str, brokers: Sequence[str], *, zookeeper: str = "", **more: object
) -> dict[str, object]:
    """One of the two clusters, as in a mirror's configuration."""
    told: dict[str, object] = {"cluster": cluster, "brokers": list(brokers), **more}
    return {**told, "zookeeper": zookeeper} if zookeeper else told
