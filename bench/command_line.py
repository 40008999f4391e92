"""`python -m bench.command_line`: how soon `penstock --help` and a Tab answer, and what bare Python
takes of it.

All cases take turns. Beside what somebody waits, there is what a processor worked, which others on
the machine change less. Instructions are counted by valgrind, where that is installed: they are the
same however busy the machine is.
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
    """As the script of `penstock completion bash` asks."""
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
    taken: dict[str, list[tuple[float, float]]] = {case: [] for case in CASES}
    for _ in range(rounds + 1):
        for case in CASES:
            taken[case].append(_milliseconds(case))
    print("| | ms, median | least | processor ms, median | least | million instructions |")
    print("|---|---|---|---|---|---|")
    for case, pairs in taken.items():
        counted = zip(*pairs[1:], strict=True)  # the first round writes bytecode
        figures = " | ".join(f"{statistics.median(of):.0f} | {min(of):.0f}" for of in counted)
        print(f"| {case} | {figures} | {_instructions(case)} |")


def _milliseconds(case: str) -> tuple[float, float]:
    """How long it took, and how much of that a processor worked."""
    arguments, added = CASES[case]
    before = _worked()
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **added},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return (time.perf_counter() - began) * 1000, (_worked() - before) * 1000


def _worked() -> float:
    """Seconds of a processor, of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _instructions(case: str) -> str:
    if shutil.which("valgrind") is None:
        return "-"
    arguments, added = CASES[case]
    counting = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    ended = subprocess.run(
        [*counting, sys.executable, *arguments],
        env={**os.environ, **added, "PYTHONHASHSEED": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = _COLLECTED.search(ended.stderr)
    return "-" if found is None else f"{int(found[1]) / 1e6:.0f}"


if __name__ == "__main__":
    main()
