"""`penstock` as a process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.made_secrets import is_told
from tests.penstock import forked
from tests.penstock.forked import WITHIN, Forks

REPOSITORY = forked.REPOSITORY
# Development mode, with warnings as errors: a file left open or a deprecated call fails the test.
INTERPRETER = [sys.executable, "-X", "dev", "-W", "error"]
PENSTOCK = [*INTERPRETER, "-m", "penstock"]
FORKS = Forks(INTERPRETER)

Ended = subprocess.CompletedProcess[str]


def penstock(*arguments: str, stdin: str = "") -> Ended:
    """Runs it to its end, in a process that has imported it already."""
    return _discreet(FORKS.run(arguments, stdin))


def fresh_penstock(*arguments: str, stdin: str = "") -> Ended:
    """Runs it to its end, in a process that imports what it needs, as a user's does."""
    ended = subprocess.run(
        [*PENSTOCK, *arguments],
        input=stdin,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    return _discreet(ended)


def _discreet(ended: Ended) -> Ended:
    assert not is_told(ended.stdout + ended.stderr), f"it tells a secret: {ended.args}"
    return ended


@contextmanager
def running(arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process with pipes, killed at the end if it still runs then.

    Ctrl-C reaches it even if the tests themselves run in the background, where it is ignored.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        ["env", "--default-signal=INT", *arguments],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        cwd=REPOSITORY,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


class At:
    """`penstock` with the address of one cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def arguments(self, *arguments: str) -> list[str]:
        return [*PENSTOCK, *arguments, "--bootstrap", self.bootstrap]

    def run(self, *arguments: str, stdin: str = "") -> Ended:
        return penstock(*arguments, "--bootstrap", self.bootstrap, stdin=stdin)

    def output(self, *arguments: str, stdin: str = "") -> str:
        """What it prints, when all goes well and nothing is said on stderr."""
        ended = self.run(*arguments, stdin=stdin)
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout

    def json(self, *arguments: str, stdin: str = "") -> Any:
        """The documents it prints with --json: the one, or a list of several lines'."""
        lines = self.output(*arguments, "--json", stdin=stdin).splitlines()
        documents = [json.loads(line) for line in lines]
        return documents[0] if len(documents) == 1 else documents
