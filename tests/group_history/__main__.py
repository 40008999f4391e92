"""`python -m tests.group_history --seed 1 --runs 10`: do groups of consumers get what is promised?

A line for each run, then figures; exit code 0 if nothing was wrong, 1 if something was, 2 if a run
could not be made. What a wrong run left behind is kept, and its script can be run again.

`--broken NAME`: brokers that leave out a rule; exit code 0 if that was caught.
"""

import argparse
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.cluster_history.run import remove
from tests.cluster_history.script import Script
from tests.group_history.broken import FLAWS
from tests.group_history.choosing import SCENES, script_of
from tests.group_history.run import Outcome, judge_again, run
from tests.group_history.script import GROUPS, parse

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# Programs start as at a user's: without hypothesis, and compiled.
ENVIRONMENT: Final = {
    "PYTHONPATH": f"{REPOSITORY}/tests/as_users:{REPOSITORY}",
    "PYTHONDONTWRITEBYTECODE": "",
}
EVERY: Final = "all"
_SHOWN: Final = 6


def main() -> int:
    options = _options()
    os.environ |= ENVIRONMENT
    # That ZooKeeper is away is no news here.
    logging.getLogger("cluster").addHandler(logging.NullHandler())
    # As Ctrl-C: whatever was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    if options.judge:
        return _judge_again(options.judge)
    began = time.monotonic()
    if options.broken:
        return _try_broken(options)
    outcomes: list[Outcome] = []
    for script in _scripts(options):
        if options.seconds and time.monotonic() - began > options.seconds:
            break
        directory = options.kept / f"{script.seed}"
        remove(directory)
        outcome = run(script, directory, _say_action if options.verbose else _silent)
        outcomes.append(outcome)
        _show(outcome, directory)
        if outcome.right and not options.keep:
            remove(directory)
    _summary(outcomes, time.monotonic() - began)
    if any(each.error for each in outcomes):
        return 2
    return int(not all(each.right for each in outcomes))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.group_history", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="seeds, one after the other")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--scenes", type=int, default=SCENES, help="of a script")
    parser.add_argument(
        "--group", action="append", choices=[*GROUPS], default=[], help="groups that there are"
    )
    parser.add_argument("--script", type=Path, action="append", default=[], help="run this file")
    parser.add_argument("--print", action="store_true", help="prints the scripts, runs nothing")
    parser.add_argument(
        "--broken",
        action="append",
        choices=[*FLAWS, EVERY],
        default=[],
        help="brokers that are broken in this way, and the script that shows it",
    )
    parser.add_argument("--judge", type=Path, help="judges what this run left, and runs nothing")
    parser.add_argument("--seconds", type=float, default=0, help="begins no run after so long")
    parser.add_argument(
        "--kept", type=Path, default=REPOSITORY / ".cache/group-history", help="for wrong runs"
    )
    parser.add_argument("--keep", action="store_true", help="keeps the right ones, too")
    parser.add_argument("--verbose", action="store_true", help="says what is being done")
    options = parser.parse_args()
    if options.print:
        for script in _scripts(options):
            _say(str(script))
        sys.exit(0)
    return options


def _judge_again(directory: Path) -> int:
    objections = judge_again(directory)
    for each in objections:
        _say(str(each))
    _say(f"{len(objections)} objections")
    return int(bool(objections))


def _try_broken(options: argparse.Namespace) -> int:
    """Each must be caught, by one of the rules that it breaks."""
    names = list(FLAWS) if EVERY in options.broken else options.broken
    outcomes = {}
    for name in names:
        flaw = FLAWS[name]
        _say(f"{name} is left out: {flaw.left_out}")
        directory = options.kept / name
        remove(directory)
        say = _say_action if options.verbose else _silent
        outcome = run(flaw.parsed(), directory, say, program=flaw.program(name))
        outcomes[name] = outcome
        _show(outcome, directory)
        if not options.keep:
            remove(directory)
    missed = [name for name, each in outcomes.items() if not FLAWS[name].is_caught_by(each.rules)]
    _say(f"{len(names) - len(missed)} of {len(names)} caught")
    if missed:
        _say(f"not caught: {', '.join(missed)}")
    if any(each.error for each in outcomes.values()):
        return 2
    return int(bool(missed))


def _scripts(options: argparse.Namespace) -> Iterator[Script]:
    if options.script:
        yield from (parse(each.read_text()) for each in options.script)
        return
    for seed in range(options.seed, options.seed + options.runs):
        yield script_of(seed, groups=options.group, scenes=options.scenes)


def _show(outcome: Outcome, directory: Path) -> None:
    verdict = "right" if outcome.right else ", ".join(outcome.rules) or "no run"
    counts = ", ".join(f"{count} {name}" for name, count in outcome.counts.items())
    _say(
        f"seed {outcome.script.seed}: {verdict}; {outcome.seconds:.0f} s, "
        f"{len(outcome.script.actions)} actions; {counts}"
    )
    if outcome.error:
        _say(f"    {outcome.error}")
    for rule in outcome.rules:
        broken = [each for each in outcome.objections if each.rule == rule]
        for each in broken[:_SHOWN]:
            _say(f"    {each}")
        if len(broken) > _SHOWN:
            _say(f"    [{rule}] and {len(broken) - _SHOWN} more")
    if not outcome.right:
        _say(f"    kept in {directory}")


def _summary(outcomes: Sequence[Outcome], seconds: float) -> None:
    wrong = [each for each in outcomes if each.objections and not each.error]
    failed = sum(bool(each.error) for each in outcomes)
    _say(
        f"{len(outcomes)} runs in {seconds:.0f} s: {len(wrong)} wrong"
        + (f"; {failed} could not be made" if failed else "")
    )
    counts: Counter[str] = Counter()
    for each in outcomes:
        counts.update(each.counts)
    for name, count in counts.items():
        _say(f"    {name:<22} {count:>8}")
    for rule, count in Counter(rule for each in wrong for rule in each.rules).most_common():
        _say(f"    rule {rule:<12} broken in {count} runs")
    actions = Counter(action.verb for each in outcomes for action in each.script.actions)
    in_wrong = Counter(
        verb for each in wrong for verb in {action.verb for action in each.script.actions}
    )
    for verb, count in sorted(actions.items()):
        _say(f"    {verb:<22} {count:>8} times, in {in_wrong[verb]} wrong runs")


def _say(words: str) -> None:
    print(words, flush=True)


def _say_action(words: str) -> None:
    _say(f"    … {words}")


def _silent(_: str) -> None:
    pass


if __name__ == "__main__":
    sys.exit(main())
