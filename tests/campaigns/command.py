"""The command of all campaigns: seeds or scripts are run, a line is told of each run, and figures
at the end. Runs that went wrong are kept, and can be judged, run again and made short.

Exit code 0 if nothing was wrong, 1 if something was, 2 if a run could not be made. With `--broken`:
0 if each that is broken on purpose was caught.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from tests.campaigns.flaws import Flaw
from tests.campaigns.outcomes import Objection, Outcome, Say, keep, summary, told
from tests.campaigns.script import Actions, Script, parse
from tests.campaigns.shrinking import shrink
from tests.runner.session_mark import SESSION, processes_with

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# Programs start compiled, as at a user's, in whatever folder.
ENVIRONMENT: Final = {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": ""}
EVERY: Final = "all"
Runner = Callable[[Sequence[Script]], Sequence[Outcome]]


class Campaign(ABC):
    """A campaign's own part: its actions, how a seed becomes a script, and how that is run."""

    name: ClassVar[str]
    about: ClassVar[str]
    runs: ClassVar[int] = 10
    side_by_side: ClassVar[int] = 1
    judges_again: ClassVar[bool] = True
    scripts: ClassVar[type[Script]] = Script
    actions: ClassVar[Actions]
    flaws: ClassVar[Mapping[str, Flaw]] = {}

    def options(self, parser: ArgumentParser) -> None:  # noqa: B027  it may have none
        """Adds its own, which `script_of` heeds."""

    @abstractmethod
    def script_of(self, seed: int, options: Namespace) -> Script: ...

    def parse(self, text: str) -> Any:
        return parse(text, self.scripts, self.actions)

    def kept_scripts(self) -> list[Path]:
        """Those that were written by hand, in its folder."""
        folder = Path(sys.modules[type(self).__module__].__file__ or "").parent
        return sorted((folder / "scripts").glob("*.script"))

    def flaw_script(self, name: str) -> Any:
        wanted = f"{self.flaws[name].script}.script"
        return next(
            self.parse(each.read_text()) for each in self.kept_scripts() if each.name == wanted
        )

    def run(self, script: Any, directory: Path, say: Say, *, broken: str = "") -> Outcome:
        """Leaves all there is to see in `directory`, which must be new. `broken`: the flaw of the
        program that is run."""
        raise NotImplementedError

    def judge_again(self, directory: Path) -> Sequence[Objection]:
        """What is wrong with a run, by what it has left."""
        raise NotImplementedError

    def batch_size(self, options: Namespace) -> int:
        """How many scripts the runner gets together. Where runs share nothing that a batch shares,
        more than run side by side: then no run waits for the slowest beside it."""
        side_by_side: int = options.side_by_side
        return side_by_side

    def totals(self) -> Iterator[str]:
        """Lines about all runs, after those that every campaign has."""
        return iter(())

    @contextmanager
    def runner(self, options: Namespace, say: Say) -> Iterator[Runner]:
        """Runs scripts side by side, each in a directory of its own."""

        def run(script: Script) -> Outcome:
            directory = kept_in(options, script)
            remove(directory)
            return self.run(script, directory, say)

        with ThreadPoolExecutor(options.side_by_side) as pool:
            yield side_by_side(pool, run)


def side_by_side(pool: ThreadPoolExecutor, run: Callable[[Script], Outcome]) -> Runner:
    def run_batch(scripts: Sequence[Script]) -> Sequence[Outcome]:
        # Scripts that are made shorter share a seed, and so a directory.
        distinct = len({script.seed for script in scripts}) == len(scripts)
        return list((pool.map if distinct else map)(run, scripts))

    return run_batch


def kept_in(options: Namespace, script: Script) -> Path:
    kept: Path = options.kept / f"{script.seed}"
    return kept


def remove(directory: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(directory)


def main(campaign: Campaign, arguments: Sequence[str]) -> int:
    options = _options(campaign, arguments)
    os.environ |= ENVIRONMENT
    # As Ctrl-C: whatever was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    if options.print:
        for script in _scripts(campaign, options):
            _say(str(script))
        return 0
    if options.judge:
        objections = campaign.judge_again(options.judge)
        for each in objections:
            _say(str(each))
        _say(f"{len(objections)} objections")
        return int(bool(objections))
    with _nothing_left() as left:
        code = _try_broken(campaign, options) if options.broken else _run_all(campaign, options)
    return code or int(bool(left))


def _options(campaign: Campaign, arguments: Sequence[str]) -> Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.campaigns {campaign.name}", description=campaign.about
    )
    add = parser.add_argument
    add("--runs", type=int, default=campaign.runs, help="so many seeds")
    add("--seed", type=int, default=1, help="the first of them; each is always the same script")
    campaign.options(parser)
    add("--script", type=Path, action="append", default=[], help="runs this file, and no seeds")
    add("--print", action="store_true", help="prints the scripts, runs nothing")
    if campaign.flaws:
        named = [*campaign.flaws, EVERY]
        about = "a program that is broken in this way, and the script that shows it"
        add("--broken", action="append", choices=named, default=[], help=about)
    if campaign.judges_again:
        add("--judge", type=Path, help="judges what this run left, and runs nothing")
    add("--shrink", type=float, default=0, help="seconds in which a wrong script is made short")
    add("--seconds", type=float, default=0, help="begins no run after so long")
    add("--side-by-side", type=int, default=campaign.side_by_side, help="so many runs at once")
    kept = REPOSITORY / ".cache" / "campaigns" / campaign.name
    add("--kept", type=Path, default=kept, help="where wrong runs stay")
    add("--keep", action="store_true", help="right ones stay, too")
    add("--verbose", action="store_true", help="says what is being done")
    return parser.parse_args(arguments, Namespace(judge=None, broken=[]))


def _scripts(campaign: Campaign, options: Namespace) -> list[Script]:
    if options.script:
        return [campaign.parse(each.read_text()) for each in options.script]
    seeds = range(options.seed, options.seed + options.runs)
    return [campaign.script_of(seed, options) for seed in seeds]


def batches(scripts: Sequence[Script], most: int) -> Iterator[list[Script]]:
    """Those that have their shared actions and their heads in common, in their order."""
    waiting: list[Script] = []
    for script in scripts:
        if waiting and (_shared(script) != _shared(waiting[0]) or len(waiting) == most):
            yield waiting
            waiting = []
        waiting.append(script)
    if waiting:
        yield waiting


def _shared(script: Script) -> list[str]:
    return [str(each) for each in script.actions if each.shared]


def _run_all(campaign: Campaign, options: Namespace) -> int:
    began = time.monotonic()
    outcomes: list[Outcome] = []
    say = _say_action if options.verbose else _silent
    with campaign.runner(options, say) as run:
        for batch in batches(_scripts(campaign, options), campaign.batch_size(options)):
            if options.seconds and time.monotonic() - began > options.seconds:
                break
            for outcome in run(batch):
                outcomes.append(outcome)
                _tell(outcome, options)
                if options.shrink and outcome.objections:
                    _shorten(outcome, run, options)
    for line in (*summary(outcomes, time.monotonic() - began), *campaign.totals()):
        _say(line)
    if any(each.error for each in outcomes):
        return 2
    return int(not all(each.right for each in outcomes))


def _tell(outcome: Outcome, options: Namespace) -> None:
    directory = kept_in(options, outcome.script)
    for line in told(outcome, directory):
        _say(line)
    if not outcome.right or outcome.remarks:
        keep(outcome, directory)
    elif not options.keep:
        remove(directory)


def _shorten(outcome: Outcome, run: Runner, options: Namespace) -> None:
    """Of what broke the same rules, the shortest script that is found in time."""
    until = time.monotonic() + options.shrink

    def goes_wrong(scripts: Sequence[Script]) -> list[bool]:
        found = [each for batch in batches(scripts, options.side_by_side) for each in run(batch)]
        return [not set(outcome.rules).isdisjoint(each.rules) for each in found]

    found = shrink(outcome.script, goes_wrong, lambda: time.monotonic() < until)
    path = options.kept / f"{found.seed}.short"
    path.write_text(str(found))
    before = len(outcome.script.actions)
    _say(f"seed {found.seed}: {len(found.actions)} of {before} actions are enough: {path}")


def _try_broken(campaign: Campaign, options: Namespace) -> int:
    """Each must be caught, by one of the rules that it breaks."""
    names = list(campaign.flaws) if EVERY in options.broken else options.broken
    missed, failed = [], False
    for name in names:
        flaw = campaign.flaws[name]
        _say(f"{name} is left out: {flaw.left_out}")
        directory = options.kept / name
        remove(directory)
        say = _say_action if options.verbose else _silent
        outcome = campaign.run(campaign.flaw_script(name), directory, say, broken=name)
        for line in told(outcome, directory if options.keep else None):
            _say(line)
        if not options.keep:
            remove(directory)
        failed = failed or bool(outcome.error)
        if not flaw.is_caught_by(outcome.rules):
            missed.append(name)
    _say(f"{len(names) - len(missed)} of {len(names)} caught")
    if missed:
        _say(f"not caught: {', '.join(missed)}")
    return 2 if failed else int(bool(missed))


@contextmanager
def _nothing_left() -> Iterator[list[str]]:
    """Each process that was started within is known by a mark. One that is still there in the end
    is killed, and told."""
    mark = os.environ[SESSION] = f"campaign-{os.getpid()}"
    found: list[str] = []
    try:
        yield found
    finally:
        for process, command in processes_with(mark):
            found.append(command)
            _say(f"left behind: {command}")
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)


def _say(words: str) -> None:
    print(words, flush=True)


def _say_action(words: str) -> None:
    _say(f"    … {words}")


def _silent(_: str) -> None:
    pass
