"""`penstock load` as a process that can be observed and killed."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from loader.config import LoaderConfig, Spark
from tests.penstock.running import PENSTOCK, REPOSITORY

WITHIN = 1_500.0


class LoadProgram:
    """Runs with one configuration, as often as that is asked for. Keeps what it needs on disk, and
    what it says, in a directory of its own."""

    def __init__(
        self,
        config: LoaderConfig,
        directory: Path,
        *,
        master: str,
        conf: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        staged: str = "",
        command: Sequence[str] = PENSTOCK,
    ) -> None:
        self._directory = directory
        self._command = command
        cache = {"XDG_CACHE_HOME": str(directory / "cache")}
        self._environment = {**os.environ, **cache, **(environment or {})}
        self._path = directory / ("staged.yaml" if staged else "loader.yaml")
        local = {"spark.local.dir": str(directory)}
        spark = Spark(master=master, conf={**conf, **local}, staged=staged)
        told = msgspec.structs.replace(config, spark=spark)
        self._path.write_text(yaml.safe_dump(msgspec.to_builtins(told)))

    @property
    def said(self) -> str:
        """The last process's stderr."""
        return (self._directory / "said").read_text()

    def start(self, *options: str) -> subprocess.Popen[str]:
        with (self._directory / "said").open("w") as said:
            return subprocess.Popen(
                [*self._command, "load", "--config", str(self._path), *options],
                cwd=REPOSITORY,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )

    def run(self, *options: str) -> tuple[int, str]:
        """Returns exit code and output."""
        with self.start(*options) as process:
            try:
                output, _ = process.communicate(timeout=WITHIN)
            except subprocess.TimeoutExpired as error:
                error.add_note(self.said)
                raise
            finally:
                process.kill()
        return process.returncode, output


def reported(table: str) -> dict[str, Any]:
    """The report's only row, by column."""
    heads, row = (line.split() for line in table.splitlines())
    return dict(zip(heads, row, strict=False))
