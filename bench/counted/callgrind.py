"""Runs paths under callgrind and reads their instruction counts.

Counts do not depend on the user: the environment is fixed, hashes have no seed, and files are in
memory. Valgrind emulates a processor without AVX-512, which matters to libraries that choose their
code by processor. `accepted_counts.circumstances` has the other dependencies.
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

PATIENCE: Final = 600.0  # seconds for a process, which usually takes ten
_MEMORY: Final = Path("/dev/shm")
_TOTALS: Final = re.compile(r"^totals: (\d+)", re.MULTILINE)


class NotCounted(Exception):
    """Paths cannot be counted; the message has the reason."""


def why_no_counts() -> str | None:
    """Returns in one line why nothing can be counted; None if this machine can count."""
    if platform.machine() != "x86_64":
        return f"instructions are counted only on x86_64, not {platform.machine()}"
    if shutil.which("valgrind") is None:
        return "valgrind is not installed: apt install valgrind"
    return None


class Counted(msgspec.Struct):
    """The instructions per unit of each path, or the reason why a path has no count."""

    counts: dict[str, int] = {}
    why_not: dict[str, str] = {}


def counted(paths: Sequence[CountedPath], root: Path) -> Counted:
    """Counts the instructions of the paths in the code below `root`. A path that starts a program
    needs its own process; all others share one."""
    result = Counted()
    repeated_paths = [path for path in paths if path.times]
    starts = [[path] for path in paths if not path.times]
    for group in [repeated_paths, *starts] if repeated_paths else starts:
        try:
            _count(group, root, result)
        except NotCounted as reason:
            result.why_not |= {
                path.name: str(reason) for path in group if path.name not in result.counts
            }
    return result


def _count(paths: list[CountedPath], root: Path, result: Counted) -> None:
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="penstock-counts-", dir=memory) as directory:
        home = Path(directory)
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
            _run(first, root, environment)  # compiles the bytecode
        lines = _run([*_callgrind(home), *command], root, environment).splitlines()
        for path, line in zip(paths, lines, strict=True):
            _, *words = line.split("\t")
            if not words[0].isdigit():
                result.why_not[path.name] = words[0]
                continue
            empty_total, single_total, *double_totals = (
                _total(home / f"counts.{number}") for number in words
            )
            result.counts[path.name] = (
                round((double_totals[0] - single_total) / (path.times * path.units))
                if double_totals
                else single_total - empty_total
            )


def _callgrind(home: Path) -> list[str]:
    output_option = f"--callgrind-out-file={home / 'counts'}"
    return ["valgrind", "--tool=callgrind", "--instr-atstart=no", output_option]


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
        # Other threads would add counts that vary.
        "OMP_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }


def _run(command: list[str], root: Path, environment: dict[str, str]) -> str:
    """Returns the output."""
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
        raise NotCounted(f"timed out after {PATIENCE:g} s") from None
    if run.returncode:
        errors = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        faults = [line for line in errors if not line.startswith("==")]
        raise NotCounted((faults or errors)[-1])
    return run.stdout


def _total(dump: Path) -> int:
    match = _TOTALS.search(dump.read_text(errors="replace"))
    if match is None:
        raise NotCounted(f"callgrind wrote no total to {dump.name}")
    return int(match[1])
