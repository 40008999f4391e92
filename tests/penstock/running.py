"""`penstock` as a process."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from harness.logins.made_secrets import is_told
from tests.penstock import forked
from tests.penstock.forked import Call, Forks

REPOSITORY = forked.REPOSITORY
WITHIN = 90.0
# Development mode, with warnings as errors: a file left open or a deprecated call fails the test.
INTERPRETER = [sys.executable, "-X", "dev", "-W", "error"]
PENSTOCK = [*INTERPRETER, "-m", "penstock"]
FORKS = Forks(INTERPRETER)
_ORDINARY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
NOBODY = 65_534

_CREATED = re.compile(r"^penstock: created topic .*\n", re.MULTILINE)
Ended = subprocess.CompletedProcess[str]


def penstock(
    *arguments: str, stdin: str | int = "", environment: Mapping[str, str] | None = None
) -> Ended:
    """Runs it to its end, in a process that has imported it already. Its input is a text, or what
    an open descriptor reads; the environment is over the one of the tests."""
    ended = penstock_bytes(*arguments, stdin=stdin, environment=environment)
    said = ended.stdout.decode(), ended.stderr.decode()
    return _discreet(Ended(list(arguments), ended.returncode, *said))


def penstock_bytes(
    *arguments: str, stdin: str | int = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The same, whatever bytes it writes."""
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(b"" if isinstance(stdin, int) else stdin.encode())
        files[0].seek(0)
        given = stdin if isinstance(stdin, int) else files[0].fileno()
        streams = (given, files[1].fileno(), files[2].fileno())
        call = FORKS.call(arguments, streams, **(environment or {}))
        stack.callback(call.kill)
        code = call.wait(WITHIN)
        for file in files:
            file.seek(0)
        return subprocess.CompletedProcess(list(arguments), code, files[1].read(), files[2].read())


def fresh_penstock(
    *arguments: str,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    folder: Path = REPOSITORY,
    ordinary: bool = False,
) -> Ended:
    """Runs it to its end, in a process that imports what it needs, as a user's does. With
    `ordinary`, modes of files count also where root runs the tests."""
    without = [*_ORDINARY] if ordinary and os.geteuid() == 0 else []
    ended = subprocess.run(
        [*without, *PENSTOCK, *arguments],
        input=stdin,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    return _discreet(ended)


def _discreet(ended: Ended) -> Ended:
    assert not is_told(ended.stdout + ended.stderr), f"it tells a secret: {ended.args}"
    return ended


class Running:
    """A command that goes on, with pipes."""

    def __init__(self, call: Call, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.call = call
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr

    def end(self, number: int) -> int:
        """Its exit code after this signal."""
        self.call.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        return self.call.wait(WITHIN)


@contextmanager
def running(
    *arguments: str, stdin: int | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Killed at the end if it still runs then. Its input is a pipe, or what a descriptor reads."""
    with ExitStack() as stack:
        ours, theirs = [], []
        for mode in ("wb", "rb", "rb"):
            read, write = os.pipe()
            own, other = (write, read) if mode == "wb" else (read, write)
            ours.append(stack.enter_context(os.fdopen(own, mode)))
            theirs.append(other)
        given = [stdin if stdin is not None else theirs[0], *theirs[1:]]
        try:
            call = FORKS.call(arguments, given, **(environment or {}))
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        stack.callback(call.kill)
        yield Running(call, *ours)


class At:
    """`penstock` with the address of one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def arguments(self, *arguments: str) -> list[str]:
        return [*arguments, "--bootstrap", self.bootstrap]

    def run(self, *arguments: str, stdin: str | int = "") -> Ended:
        return penstock(*self.arguments(*arguments), stdin=stdin)

    def running(self, *arguments: str, stdin: int | None = None) -> AbstractContextManager[Running]:
        return running(*self.arguments(*arguments), stdin=stdin)

    def output(self, *arguments: str, stdin: str = "") -> str:
        """What it prints, when all goes well; stderr may say that it created a topic."""
        ended = self.run(*arguments, stdin=stdin)
        assert (ended.returncode, _CREATED.sub("", ended.stderr)) == (0, "")
        return ended.stdout

    def json(self, *arguments: str, stdin: str = "") -> Any:
        """The documents it prints with --json: the one, or a list of several lines'."""
        lines = self.output(*arguments, "--json", stdin=stdin).splitlines()
        documents = [json.loads(line) for line in lines]
        return documents[0] if len(documents) == 1 else documents

    def refused(self, *arguments: str, code: int = 1, stdin: str = "") -> str:
        """The one line that it says when it does not do what it was asked for."""
        ended = self.run(*arguments, stdin=stdin)
        assert (ended.returncode, ended.stdout) == (code, ""), ended
        (line,) = _CREATED.sub("", ended.stderr).splitlines()
        return line
