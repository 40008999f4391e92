"""Results as JSON files.

    {"commit": "1a2b3c4 of 2026-11-24, changed", "date": "2026-11-24T21:00:00Z", "command": …,
     "machine": {"cores": …, "kernel": …, "Python": …}, "versions": {"Penstock": …, …},
     "profiles": {NAME: {"about": …, "cases": {CASE: {BROKER: {"failure": …, "samples": […]}}}}}}

Instruction counts have `counts`, by path, instead of `profiles`. Files below `RESULTS` are named by
time and commit, so none is overwritten.
"""

import json
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.figures import machine

RESULTS: Final = Path(__file__).resolve().parents[1] / "results"


def circumstances(directory: Path, versions: Mapping[str, str]) -> dict[str, object]:
    """Describes the circumstances of a run that begins now."""
    return {
        "commit": machine.commit(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
        "machine": machine.description(directory),
        "versions": dict(versions),
    }


def write(circumstances: Mapping[str, object], file: Path | None, **measured: object) -> Path:
    """Writes the results to `file`, or to a new file below `RESULTS`; returns the path."""
    if file is None:
        RESULTS.mkdir(exist_ok=True)
        start_time = str(circumstances["date"]).replace(":", "")
        file = RESULTS / f"{start_time}-{str(circumstances['commit']).split()[0]}.json"
    file.write_text(json.dumps({**circumstances, **measured}, indent=1) + "\n")
    return file
