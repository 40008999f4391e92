"""Builds peers: a folder is complete, or absent."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.figures.measurement import NotMeasured

HOW: Final = "make bench-peers"


def build_once(folder: Path, make: Callable[[Path], None]) -> None:
    """Builds the folder with `make`, in a temporary folder, unless it exists."""
    if folder.exists():
        return
    folder.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as directory:
        new_folder = Path(directory) / folder.name
        new_folder.mkdir()
        make(new_folder)
        new_folder.rename(folder)


def output(
    command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None
) -> str:
    """Returns the output of a command. Raises NotMeasured with its last line if it fails."""
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
