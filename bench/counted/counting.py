"""Runs paths under callgrind and reads how many instructions they took.

Nothing of whoever counts gets in: the environment is the same everywhere, hashes have no seed, and
files are in memory. Valgrind presents a processor of its own, without AVX-512, to libraries that
choose their code by it. What else counts depend on is in `accepted.circumstances`.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.counted.paths import CountedPath
from bench.figures.plain_python import without_hypothesis

PATIENCE: Final = 600.0  # seconds for a process; ten are usual
_MEMORY: Final = Path("/dev/shm")
_TOTALS: Final = re.compile(r"^totals: (\d+)", re.MULTILINE)


class NotCounted(Exception):
    """Why paths have no count."""


def why_no_counts() -> str | None:
    """In one line; None if it can be counted here."""
    if platform.machine() != "x86_64":
        return f"instructions are counted on x86_64, and this is {platform.machine()}"
    if shutil.which("valgrind") is None:
        return "valgrind is not installed: apt install valgrind"
    return None


class Counted(msgspec.Struct):
    """Instructions for each unit of a path, by its name; of the others, why they have no count."""

    counts: dict[str, int] = {}
    why_not: dict[str, str] = {}


def counted(paths: Sequence[CountedPath], root: Path) -> Counted:
    """With the code below `root`. A start needs a process of its own; all others share one."""
    found = Counted()
    together = [path for path in paths if path.times]
    alone = [[path] for path in paths if not path.times]
    for group in [together, *alone] if together else alone:
        try:
            _count(group, root, found)
        except NotCounted as why:
            found.why_not |= {
                path.name: str(why) for path in group if path.name not in found.counts
            }
    return found


def _count(paths: list[CountedPath], root: Path, found: Counted) -> None:
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="penstock-counts-", dir=memory) as made:
        home = Path(made)
        environment = _environment(home)
        work = ["first", "work"]
        for name in work:
            (home / name).mkdir()
        names = [path.name for path in paths]
        first, command = (
            [sys.executable, "-m", "bench.counted.program", str(home / name), *names]
            for name in work
        )
        if not all(path.times for path in paths):
            _run(first, root, environment)  # so that Python has compiled it all
        said = _run([*_callgrind(home), *command], root, environment).splitlines()
        for path, line in zip(paths, said, strict=True):
            _, *words = line.split("\t")
            if not words[0].isdigit():
                found.why_not[path.name] = words[0]
                continue
            nothing, once, *twice = (_total(home / f"counts.{number}") for number in words)
            found.counts[path.name] = (
                round((twice[0] - once) / (path.times * path.units)) if twice else once - nothing
            )


def _callgrind(home: Path) -> list[str]:
    out = f"--callgrind-out-file={home / 'counts'}"
    return ["valgrind", "--tool=callgrind", "--instr-atstart=no", out]


def _environment(home: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home / "work"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "100",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(without_hypothesis(home)),
        # Threads beside the one that is counted would be counted as they happen to run.
        "OMP_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }


def _run(command: list[str], root: Path, environment: dict[str, str]) -> str:
    """What it printed."""
    try:
        run = subprocess.run(
            command,
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise NotCounted(f"it took longer than {PATIENCE:g} s") from None
    if run.returncode:
        said = run.stderr.strip().splitlines() or [f"it ended with {run.returncode}"]
        faults = [line for line in said if not line.startswith("==")]
        raise NotCounted((faults or said)[-1])
    return run.stdout


def _total(dump: Path) -> int:
    found = _TOTALS.search(dump.read_text(errors="replace"))
    if found is None:
        raise NotCounted(f"callgrind has left no sum in {dump.name}")
    return int(found[1])
