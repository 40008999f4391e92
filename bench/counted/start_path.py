"""`penstock --help`, and a Tab for an option, from the first import on."""

import contextlib
import importlib
import io
import os
from pathlib import Path

from bench.counted.paths import Act


def help_shown(_: Path) -> Act:
    def act(_: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
            importlib.import_module("penstock.command_line").penstock(["--help"])
        if "Usage" not in said.getvalue():
            raise RuntimeError(f"no help was shown: {said.getvalue()!r}")

    return act


def option_completed(_: Path) -> Act:
    def act(_: int) -> None:
        os.environ |= {"COMP_WORDS": "penstock consume --", "COMP_CWORD": "--"}
        with contextlib.redirect_stdout(io.StringIO()) as said:
            group = importlib.import_module("penstock.command_line").penstock
            completion = importlib.import_module("penstock.cli.completion")
            completion.complete(group, "bash_complete")
        if "--bootstrap" not in said.getvalue():
            raise RuntimeError(f"options were not offered: {said.getvalue()!r}")

    return act
