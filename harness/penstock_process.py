"""A program of Penstock's as a child process, run as a user runs it: `python -m penstock NAME`.

Its configuration, directory and ports stay the same over all its starts, so that others find it
again and a restart finds what the process before left. It counts as started when `/readyz` says so.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from harness.server_process import RunningServer, ServerProcess, http_page

REPOSITORY: Final = Path(__file__).resolve().parent.parent


class PenstockProcess(RunningServer):
    """One of the programs, with its configuration in `directory`. `penstock` begins commands."""

    http_port: int

    def __init__(
        self,
        name: str,
        directory: Path,
        settings: Mapping[str, object],
        *,
        environment: Mapping[str, str] | None = None,
        program: str = "penstock",
        wrapper: Sequence[str] = (),
    ) -> None:
        """`program`: the module that is run. `wrapper`: a command that runs it, such as setpriv."""
        directory.mkdir(parents=True, exist_ok=True)
        self.config = directory / f"{name}.yaml"
        self.settings: dict[str, object] = dict(settings)
        self.configure()
        self.penstock = [sys.executable, "-m", program]
        self.process = ServerProcess(
            [*wrapper, *self.penstock, name, "--config", str(self.config)],
            output=directory / f"{name}.log",
            environment=environment,
            directory=REPOSITORY,
        )

    def configure(self, **settings: object) -> None:
        """Writes the configuration with these changes; a running program is not told."""
        self.settings.update(settings)
        self.config.write_text(yaml.safe_dump(self.settings))

    def ready(self) -> bool:
        return self.http("/readyz")[0] == 200

    def http(self, path: str) -> tuple[int, str]:
        """Status and body of a page of its HTTP port; status 0 while nobody answers."""
        return http_page(self.http_port, path)

    def run(self, *arguments: str, within: float = 120) -> subprocess.CompletedProcess[str]:
        """Another command of `penstock`, to its end."""
        return subprocess.run(
            [*self.penstock, *arguments],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=within,
            check=False,
        )
