"""`python -m bench.command_line`: response times of `penstock --help` and of tab completion, beside
those of bare Python.

The cases take turns. Processor time is shown as well, since other load on the machine changes it
less. Where valgrind is installed, instructions are counted: they do not depend on other load.
"""

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

_COLLECTED: Final = re.compile(r"Collected : (\d+)")
_NOTHING: Final[Mapping[str, str]] = {}


def _tab(line: str) -> dict[str, str]:
    """The environment that the script of `penstock completion bash` sets."""
    return {
        "_PENSTOCK_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": line.rpartition(" ")[2],
    }


_PENSTOCK: Final = ("-m", "penstock")
CASES: Final[Mapping[str, tuple[Sequence[str], Mapping[str, str]]]] = {
    "`python -I -c pass`": (("-I", "-c", "pass"), _NOTHING),
    "`python -c pass`": (("-c", "pass"), _NOTHING),
    "`python -c 'import click'`": (("-c", "import click"), _NOTHING),
    "help of `penstock`": ((*_PENSTOCK, "--help"), _NOTHING),
    "help of `penstock topics`": ((*_PENSTOCK, "topics", "--help"), _NOTHING),
    "a Tab after `to`": (_PENSTOCK, _tab("penstock to")),
    "a Tab after `topics de`": (_PENSTOCK, _tab("penstock topics de")),
    "a Tab after `certificates sign --`": (_PENSTOCK, _tab("penstock certificates sign --")),
    "a Tab after `schemas show --`": (_PENSTOCK, _tab("penstock schemas show --")),
    "a Tab after `topics create --`": (_PENSTOCK, _tab("penstock topics create --")),
    "a Tab after `consume --`": (_PENSTOCK, _tab("penstock consume --")),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.command_line", description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    rounds = parser.parse_args().rounds
    samples: dict[str, list[tuple[float, float]]] = {case: [] for case in CASES}
    for _ in range(rounds + 1):
        for case in CASES:
            samples[case].append(_milliseconds(case))
    print("| | ms, median | least | processor ms, median | least | million instructions |")
    print("|---|---|---|---|---|---|")
    for case, pairs in samples.items():
        columns = zip(*pairs[1:], strict=True)  # the first round writes bytecode
        figures = " | ".join(f"{statistics.median(ms):.0f} | {min(ms):.0f}" for ms in columns)
        print(f"| {case} | {figures} | {_instructions(case)} |")


def _milliseconds(case: str) -> tuple[float, float]:
    """Elapsed time and processor time."""
    arguments, extra_environment = CASES[case]
    cpu_before = _children_seconds()
    start_time = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **extra_environment},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return (time.perf_counter() - start_time) * 1000, (_children_seconds() - cpu_before) * 1000


def _children_seconds() -> float:
    """Processor seconds of all children that have ended."""
    rusage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return rusage.ru_utime + rusage.ru_stime


def _instructions(case: str) -> str:
    if shutil.which("valgrind") is None:
        return "-"
    arguments, extra_environment = CASES[case]
    callgrind_command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    valgrind = subprocess.run(
        [*callgrind_command, sys.executable, *arguments],
        env={**os.environ, **extra_environment, "PYTHONHASHSEED": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    match = _COLLECTED.search(valgrind.stderr)
    return "-" if match is None else f"{int(match[1]) / 1e6:.0f}"


if __name__ == "__main__":
    main()
