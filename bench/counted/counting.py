"""Runs a path under callgrind and reads how many instructions it took.

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
from pathlib import Path
from typing import Final

from bench.counted.paths import CountedPath
from bench.plain_python import without_hypothesis

PATIENCE: Final = 600.0  # seconds for one path; a few are usual
_MEMORY: Final = Path("/dev/shm")
_TOTALS: Final = re.compile(r"^totals: (\d+)", re.MULTILINE)


class NotCounted(Exception):
    """Why a path has no count."""


def why_no_counts() -> str | None:
    """In one line; None if it can be counted here."""
    if platform.machine() != "x86_64":
        return f"instructions are counted on x86_64, and this is {platform.machine()}"
    if shutil.which("valgrind") is None:
        return "valgrind is not installed: apt install valgrind"
    return None


def counted(path: CountedPath, root: Path) -> int:
    """Instructions for each of its units, with the code below `root`. Raises `NotCounted`."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="penstock-counts-", dir=memory) as made:
        home = Path(made)
        (home / "work").mkdir()
        environment = _environment(home)
        command = [sys.executable, "-m", "bench.counted.program", path.name, str(home / "work")]
        if not path.times:
            _run(command, root, environment)  # so that Python has compiled it all
        _run([*_callgrind(home), *command], root, environment)
        dumps = [
            _total(home / f"counts.{number}") for number in (2, 3, 4)[: 3 if path.times else 2]
        ]
    if not path.times:
        return dumps[1] - dumps[0]
    return round((dumps[2] - dumps[1]) / (path.times * path.units))


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


def _run(command: list[str], root: Path, environment: dict[str, str]) -> None:
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


def _total(dump: Path) -> int:
    found = _TOTALS.search(dump.read_text(errors="replace"))
    if found is None:
        raise NotCounted(f"callgrind has left no sum in {dump.name}")
    return int(found[1])
