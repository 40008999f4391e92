"""`python -m tests.spec`: searches the specification of replication, for so long.

First every flaw, each of which must be caught; then the contract in every size, the smallest first,
breadth first, and what time is left in random walks through the largest. A line for each; exit code
0 if every flaw was caught and nothing else was found. A counterexample is told step by step.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.java.maven_jars import JarsUnavailable
from tests.spec.checking import CheckerFailed, Searched, search
from tests.spec.instances import FLAWS, SIZES, WALKED, Instance
from tests.spec.trace import told

_ROUND: Final = 2000  # walks, of 60 steps at most


def main() -> int:
    options = _options()
    ends = time.monotonic() + options.seconds
    try:
        if options.flaw:
            return _show_flaw(options, ends)
        sizes = {options.size: SIZES[options.size]} if options.size else SIZES
        right = bool(options.size) or _flaws(options, ends)
        for name, instance in sizes.items():
            right &= _contract(name, instance, options, ends)
        if not options.size:
            right &= _walks(options, ends)
    except (JarsUnavailable, CheckerFailed) as why:
        print(f"TLC cannot search: {why}", file=sys.stderr)
        return 2
    return int(not right)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.spec", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800, help="so long in all (1800)")
    parser.add_argument("--size", choices=SIZES, help="only this size of the contract")
    parser.add_argument("--flaw", choices=FLAWS, help="only this flaw, with its counterexample")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--heap", default="4g", help="Java's memory (4g)")
    parser.add_argument("--keep", type=Path, help="leave module and configuration in this folder")
    return parser.parse_args()


def _show_flaw(options: argparse.Namespace, ends: float) -> int:
    flaw = FLAWS[options.flaw]
    found = _search_flaw(options.flaw, options, ends)
    print(_line(options.flaw, found))
    print(told(found.story))
    return int(found.broken != flaw.breaks)


def _flaws(options: argparse.Namespace, ends: float) -> bool:
    missed = []
    for name, flaw in FLAWS.items():
        found = _search_flaw(name, options, ends)
        print(_line(f"without {flaw.rule}: {name}", found), flush=True)
        if found.broken != flaw.breaks:
            missed.append(name)
    if missed:
        print(f"not caught: {', '.join(missed)}")
    return not missed


def _search_flaw(name: str, options: argparse.Namespace, ends: float) -> Searched:
    # By one worker: several may find another of the shortest counterexamples each time.
    alone = argparse.Namespace(**vars(options) | {"workers": 1})
    return _search(replace(FLAWS[name].instance, flaw=name), alone, ends)


def _contract(name: str, instance: Instance, options: argparse.Namespace, ends: float) -> bool:
    if time.monotonic() >= ends:
        print(f"{name:32} not searched: the time is up")
        return True
    found = _search(instance, options, ends)
    print(_line(name, found), flush=True)
    if found.broken:
        print(told(found.story))
    return not found.broken


def _walks(options: argparse.Namespace, ends: float) -> bool:
    """In rounds, until the time is up."""
    rounds = states = 0
    while time.monotonic() < ends:
        found = _search(WALKED, options, ends, walks=_ROUND)
        rounds, states = rounds + 1, states + found.generated
        if found.broken:
            print(_line("walks", found), told(found.story), sep="\n")
            return False
    print(f"{'walks':32} nothing found; {states:,} states in {rounds} rounds of {_ROUND} walks")
    return True


def _search(
    instance: Instance, options: argparse.Namespace, ends: float, *, walks: int = 0
) -> Searched:
    return search(
        instance,
        seconds=max(ends - time.monotonic(), 1),
        workers=options.workers,
        heap=options.heap,
        walks=walks,
        keep=options.keep,
    )


def _line(name: str, found: Searched) -> str:
    verdict = (
        f"{found.broken} is broken in {len(found.story)} steps"
        if found.broken
        else f"all states, {found.depth} deep"
        if found.complete
        else "nothing found in the time"
    )
    counted = f"{found.distinct:,} states, {found.generated:,} generated, {found.seconds:.0f} s"
    return f"{name:32} {verdict}; {counted}"


if __name__ == "__main__":
    sys.exit(main())
