"""What the histories' commands have in common: seeds run one after the other, a line for each,
figures at the end; wrong runs are kept, and can be judged and run again.

Exit code 0 if nothing was wrong, 1 if something was, 2 if a run could not be made. With `--broken`:
0 if each that is broken on purpose was caught.
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from tests.cluster_history.judging import Objection
from tests.cluster_history.script import Script

REPOSITORY: Final = Path(__file__).resolve().parents[1]
# Programs start compiled, as at a user's, in whatever folder.
ENVIRONMENT: Final = {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": ""}
EVERY: Final = "all"
_SHOWN: Final = 6

Say = Callable[[str], None]


class Outcome(msgspec.Struct, frozen=True):
    script: Script
    objections: tuple[Objection, ...]
    seconds: float
    counts: Mapping[str, int] = {}
    error: str = ""  # the run could not be made: nobody knows

    @property
    def right(self) -> bool:
        return not self.objections and not self.error

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.rule for each in self.objections))


class Flaw(Protocol):
    """Something that is broken on purpose, and the rules by which it must be caught."""

    @property
    def left_out(self) -> str: ...
    def parsed(self) -> Script: ...
    def program(self, name: str) -> str: ...
    def is_caught_by(self, rules: Collection[str]) -> bool: ...


class Run(Protocol):
    def __call__(
        self, script: Script, directory: Path, say: Say, *, program: str = ...
    ) -> Outcome: ...


class Runs(msgspec.Struct, frozen=True):
    """A history's own part. `options` adds those that choose a script, `script_of` heeds them."""

    name: str  # as in `make cluster-history`
    about: str
    options: Callable[[ArgumentParser], Any]
    script_of: Callable[[int, Namespace], Script]
    parse: Callable[[str], Script]
    run: Run
    judge_again: Callable[[Path], Sequence[Objection]]
    flaws: Mapping[str, Flaw]

    def main(self) -> int:
        options = self._options()
        os.environ |= ENVIRONMENT
        # As Ctrl-C: whatever was started is ended.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
        if options.print:
            for script in self._scripts(options):
                _say(str(script))
            return 0
        if options.judge:
            return self._judge_again(options.judge)
        if options.broken:
            return self._try_broken(options)
        return self._run_all(options)

    def _run_all(self, options: Namespace) -> int:
        began = time.monotonic()
        outcomes: list[Outcome] = []
        for script in self._scripts(options):
            if options.seconds and time.monotonic() - began > options.seconds:
                break
            directory = options.kept / f"{script.seed}"
            remove(directory)
            outcome = self.run(script, directory, _say_action if options.verbose else _silent)
            outcomes.append(outcome)
            _show(outcome, directory)
            if outcome.right and not options.keep:
                remove(directory)
        _summary(outcomes, time.monotonic() - began)
        if any(each.error for each in outcomes):
            return 2
        return int(not all(each.right for each in outcomes))

    def _options(self) -> Namespace:
        module = self.name.replace("-", "_")
        parser = argparse.ArgumentParser(prog=f"python -m tests.{module}", description=self.about)
        add = parser.add_argument
        add("--runs", type=int, default=10, help="seeds, one after the other")
        add("--seed", type=int, default=1, help="the first of them")
        self.options(parser)
        add("--script", type=Path, action="append", default=[], help="run this file")
        add("--print", action="store_true", help="prints the scripts, runs nothing")
        add(
            "--broken",
            action="append",
            choices=[*self.flaws, EVERY],
            default=[],
            help="what is broken in this way, and the script that shows it",
        )
        add("--judge", type=Path, help="judges what this run left, and runs nothing")
        add("--seconds", type=float, default=0, help="begins no run after so long")
        kept = REPOSITORY / ".cache" / self.name
        add("--kept", type=Path, default=kept, help="for wrong runs")
        add("--keep", action="store_true", help="keeps the right ones, too")
        add("--verbose", action="store_true", help="says what is being done")
        return parser.parse_args()

    def _scripts(self, options: Namespace) -> Iterator[Script]:
        if options.script:
            yield from (self.parse(each.read_text()) for each in options.script)
            return
        for seed in range(options.seed, options.seed + options.runs):
            yield self.script_of(seed, options)

    def _judge_again(self, directory: Path) -> int:
        objections = self.judge_again(directory)
        for each in objections:
            _say(str(each))
        _say(f"{len(objections)} objections")
        return int(bool(objections))

    def _try_broken(self, options: Namespace) -> int:
        """Each must be caught, by one of the rules that it breaks."""
        names = list(self.flaws) if EVERY in options.broken else options.broken
        outcomes = {}
        for name in names:
            flaw = self.flaws[name]
            _say(f"{name} is left out: {flaw.left_out}")
            directory = options.kept / name
            remove(directory)
            say = _say_action if options.verbose else _silent
            outcome = self.run(flaw.parsed(), directory, say, program=flaw.program(name))
            outcomes[name] = outcome
            _show(outcome, directory)
            if not options.keep:
                remove(directory)
        missed = [each for each in names if not self._is_caught(each, outcomes[each])]
        _say(f"{len(names) - len(missed)} of {len(names)} caught")
        if missed:
            _say(f"not caught: {', '.join(missed)}")
        if any(each.error for each in outcomes.values()):
            return 2
        return int(bool(missed))

    def _is_caught(self, name: str, outcome: Outcome) -> bool:
        return self.flaws[name].is_caught_by(outcome.rules)


def remove(directory: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(directory)


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
    actions = Counter(_verbs(outcomes))
    in_wrong = Counter(verb for each in wrong for verb in set(_verbs([each])))
    for verb, count in sorted(actions.items()):
        _say(f"    {verb:<22} {count:>8} times, in {in_wrong[verb]} wrong runs")


def _verbs(outcomes: Iterable[Outcome]) -> Iterator[str]:
    return (action.verb for each in outcomes for action in each.script.actions)


def _say(words: str) -> None:
    print(words, flush=True)


def _say_action(words: str) -> None:
    _say(f"    … {words}")


def _silent(_: str) -> None:
    pass
