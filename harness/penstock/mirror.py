"""Runs `penstock mirror` as a child process (program.py)."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.penstock.program import PenstockProcess
from harness.processes.server_process import free_ports


class MirrorProcess(PenstockProcess):
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
        """`source` and `target` as in the configuration. `program` is the module to run."""
        (self.http_port,) = free_ports(1)
        config: dict[str, Any] = {
            "name": "copies",
            "source": dict(source),
            "target": dict(target),
            "topics": ["*"],
            "http_port": self.http_port,
            "data_dir": str(directory / "data"),
            **(settings or {}),
        }
        super().__init__("mirror", directory, config, environment=environment, program=program)

    def command(self, *arguments: str) -> list[str]:
        """Returns the command line `penstock mirror [ARGUMENTS] --config …`."""
        return [*self.penstock, "mirror", *arguments, "--config", str(self.config)]

    def told(self, *arguments: str, within: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs one of the mirror's commands to its end: `told("promote", "dc1.clicks")`."""
        return self.run("mirror", *arguments, "--config", str(self.config), within=within)

    def standing(self) -> Any:
        """Returns the worker's status of its partitions; None if the worker does not answer."""
        status, body = self.http("/api/v1/standing")
        return json.loads(body) if status == 200 else None


def side(
    cluster: str, brokers: Sequence[str], *, zookeeper: str = "", **more: object
) -> dict[str, object]:
    """Returns the section of one cluster in a mirror's configuration."""
    section: dict[str, object] = {"cluster": cluster, "brokers": list(brokers), **more}
    return {**section, "zookeeper": zookeeper} if zookeeper else section
