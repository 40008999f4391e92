"""A driver of Spark as a child process that stays up from one load to the next."""

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from bench.driver_commands import Json
from harness.server_process import ServerFailed

REPOSITORY = Path(__file__).resolve().parent.parent
_PATIENCE = 1800.0
_PATIENCE_AT_END = 60.0


class SparkDriver:
    """`with SparkDriver(command, output=file) as driver: driver.ask("load", …)`."""

    def __init__(
        self, command: Sequence[str], *, output: Path, environment: Mapping[str, str]
    ) -> None:
        self._command = list(command)
        self._output = output
        self._environment = dict(environment)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._child is not None, "never started"
        return self._child.pid

    def last_words(self, lines: int) -> str:
        if not self._output.exists():
            return ""
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-lines:])

    def ask(self, name: str, arguments: Json, *, within: float = _PATIENCE) -> Json:
        """Has it done. ServerFailed if it did not work."""
        commands, answers = self._pipes()
        try:
            commands.write(json.dumps([name, arguments]).encode() + b"\n")
            commands.flush()
        except BrokenPipeError:
            raise ServerFailed("the driver has ended") from None
        if not select.select([answers], [], [], within)[0]:
            raise ServerFailed(f"{name}: no answer within {within:g} s")
        line = answers.readline()
        if not line:
            raise ServerFailed(f"{name}: the driver ended")
        answer: Json = json.loads(line)
        if "error" in answer:
            raise ServerFailed(f"{name}: {answer['error']}")
        return answer

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._child is not None, "never started"
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        return self._child.stdin, self._child.stdout

    def __enter__(self) -> Self:
        with self._output.open("ab") as output:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=REPOSITORY,
                env={**os.environ, **self._environment},
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """It ends when nobody can tell it anything any more; its JVM with it."""
        assert self._child is not None
        for pipe in self._pipes():
            with contextlib.suppress(BrokenPipeError):  # it has ended by itself
                pipe.close()
        try:
            self._child.wait(_PATIENCE_AT_END)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
