"""Peers that are made here, once: whole folders, or none."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.figures.measurement import NotMeasured

HOW: Final = "make bench-peers"


def kept(folder: Path, make: Callable[[Path], None]) -> None:
    """The folder is there then: made by `make`, in another one, if it was not."""
    if folder.exists():
        return
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as directory:
        fresh = Path(directory) / folder.name
        fresh.mkdir()
        make(fresh)
        fresh.rename(folder)


def output(
    command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
) -> str:
    """What it says. NotMeasured if it fails, with the last that it said."""
    try:
        run = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise NotMeasured(f"{command[0]} is not installed") from None
    if run.returncode:
        lines = (run.stdout + run.stderr).strip().splitlines() or ["no output"]
        raise NotMeasured(f"`{' '.join(command[:3])}` failed: {lines[-1]}")
    return run.stdout
