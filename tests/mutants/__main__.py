"""`python -m tests.mutants`: is the test suite blind to changes of the programs?

The drawn mutants one after the other, each with the tests of its package: a line for each, then a
table. Exit code 0; with `--against`, 1 if one that was caught then is not caught now; with
`--check`, 1 if tests fail without a mutant.
"""

import argparse
import resource
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.mutants.drawing import Draw, Mutant, draw, edits
from tests.mutants.outcomes import Outcome, Verdict, losses, package, table
from tests.mutants.running import Copy, judge, try_tests

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DRAWN: Final = Path(__file__).with_name("drawn.json")
_MOST_BYTES: Final = 8 << 30  # of memory in a process: a mutant may ask for more and more


def main() -> int:
    options = _options()
    # As Ctrl-C: whatever was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    if options.draw:
        drawn = drawn_by(options.draw)
        _write(DRAWN, drawn)
        _say(f"drew {len(drawn.mutants)} of {sum(drawn.possible.values())} by {drawn.seed}")
        return 0
    before = _outcomes(options.against) if options.against else []
    drawn = msgspec.json.decode(DRAWN.read_bytes(), type=Draw)
    chosen = [each for each in drawn.mutants if options.only in {None, package(each.path)}]
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as directory:
        copy = Copy(REPOSITORY, Path(directory))
        copy.check_imports(packages())
        if options.check:
            return _check(copy, chosen, options.seconds)
        outcomes = []
        for mutant in chosen:
            outcomes.append(judge(copy, mutant, options.seconds))
            _say(str(outcomes[-1]))
            if options.json:
                _write(options.json, outcomes)
    _say(f"\n{table(outcomes)}")
    lost = list(losses(before, outcomes))
    for each in lost:
        _say(each)
    return int(bool(lost))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    add = parser.add_argument
    add("--only", choices=packages(), help="the mutants of this package")
    add("--seconds", type=float, default=45.0, help="for the tests of one mutant")
    add("--json", type=Path, help="writes what came of each to this file")
    add("--against", type=Path, help="an earlier such file: says what was caught then only")
    add("--check", action="store_true", help="runs the same tests without the mutants")
    add("--draw", nargs="?", const="main", metavar="COMMIT", help="draws anew, by its hash")
    return parser.parse_args()


def packages() -> list[str]:
    """The folders with the programs' code."""
    tools: Any = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]
    return sorted(tools["importlinter"]["root_packages"])


def drawn_by(commit: str) -> Draw:
    asked = ["git", "-C", str(REPOSITORY), "rev-parse", "--verify", f"{commit}^{{commit}}"]
    seed = subprocess.check_output(asked, text=True).strip()
    return draw({name: _possible(name) for name in packages()}, seed)


def _possible(name: str) -> list[Mutant]:
    return [
        edit.mutant
        for file in sorted((REPOSITORY / name).rglob("*.py"))
        for edit in edits(str(file.relative_to(REPOSITORY)), file.read_text())
    ]


def _check(copy: Copy, mutants: Sequence[Mutant], seconds: float) -> int:
    """The tests of a module are the same for all its mutants."""
    failed = []
    for mutant in {each.path: each for each in mutants}.values():
        outcome, _ = try_tests(copy, mutant, seconds)
        over = ", time over" if outcome.time_over else ""
        words = f"{outcome.passed} passed in {outcome.seconds:.0f} s{over}"
        _say(f"{mutant.path}: {outcome.caught_by or 'nothing'} failed, {words}")
        if outcome.verdict is Verdict.CAUGHT:
            failed.append(mutant.path)
    _say(f"{len(failed)} fail without a mutant")
    return int(bool(failed))


def _outcomes(path: Path) -> list[Outcome]:
    return msgspec.json.decode(path.read_bytes(), type=list[Outcome])


def _write(path: Path, value: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    sys.exit(main())
