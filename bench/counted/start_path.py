"""Starts of the command line, including all imports: `penstock --help`, and the completion of an
option."""

import contextlib
import importlib
import io
import os
from pathlib import Path

from bench.counted.paths import Act


def help_shown(_: Path) -> Act:
    def act(_: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.suppress(SystemExit):
            importlib.import_module("penstock.command_line").penstock(["--help"])
        if "Usage" not in output.getvalue():
            raise RuntimeError(f"penstock --help printed: {output.getvalue()!r}")

    return act


def option_completed(_: Path) -> Act:
    def act(_: int) -> None:
        os.environ |= {"COMP_WORDS": "penstock consume --", "COMP_CWORD": "--"}
        with contextlib.redirect_stdout(io.StringIO()) as output:
            group = importlib.import_module("penstock.command_line").penstock
            completion = importlib.import_module("penstock.cli.completion")
            completion.complete(group, "bash_complete")
        if "--bootstrap" not in output.getvalue():
            raise RuntimeError(f"completion printed: {output.getvalue()!r}")

    return act
