"""`penstock --help`, from the first import on."""

import contextlib
import importlib
import io
from pathlib import Path

from bench.counted.paths import Act


def help_shown(_: Path) -> Act:
    def act(_: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
            importlib.import_module("penstock.command_line").penstock(["--help"])
        if "Usage" not in said.getvalue():
            raise RuntimeError(f"no help was shown: {said.getvalue()!r}")

    return act
