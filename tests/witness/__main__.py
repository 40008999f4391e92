"""`python -m tests.witness --runs 10 --seed 1`: is the verdict ever wrong?

A line for each run, then figures; exit code 0 if each verdict was right, 1 if one was wrong, 2 if
a run could not be made. Scripts of wrong runs are kept, and can be run again: `--script FILE`.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.witness.batch import Outcome, fills_broker_disk, run
from tests.witness.choosing import GROUP, KINDS, script_of
from tests.witness.needless import is_of_an_agent
from tests.witness.objections import GREEN
from tests.witness.pipeline import Pipeline
from tests.witness.script import PRIVATE, Script, parse
from tests.witness.shrinking import shrink

REPOSITORY: Final = Path(__file__).resolve().parents[2]
ENVIRONMENT: Final = {"PYTHONDONTWRITEBYTECODE": ""}  # programs start compiled, as at a user's


def main() -> int:
    options = _options()
    os.environ |= ENVIRONMENT
    # As Ctrl-C: whatever was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    began = time.monotonic()
    outcomes: list[Outcome] = []
    happened: Counter[str] = Counter()
    waiting = list(batches(_scripts(options), options.side_by_side))
    tried_again = False
    while waiting and not (options.seconds and time.monotonic() - began > options.seconds):
        fills = any(fills_broker_disk(script) for batch in waiting for script in batch)
        with _pipeline(options, small_disk=fills) as pipeline:
            while waiting and not (options.seconds and time.monotonic() - began > options.seconds):
                found = run(pipeline, waiting[0], _say)
                failed = all(each.error for each in found)
                if failed and not tried_again:
                    _say(f"once more, on another pipeline: {found[0].error}")
                    tried_again = True
                    break
                tried_again = False
                del waiting[0]
                outcomes += found
                for each in found:
                    _show(each, options.kept)
                    if options.shrink and each.objections:
                        _shorten(pipeline, each, options)
                if failed:
                    break
            happened += pipeline.happened
    _summary(outcomes, happened, time.monotonic() - began)
    if any(each.error for each in outcomes):
        return 2
    return int(not all(each.right for each in outcomes))


@contextmanager
def _pipeline(options: argparse.Namespace, *, small_disk: bool) -> Iterator[Pipeline]:
    with ExitStack() as ends:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            directory = Path(tempfile.mkdtemp(dir=options.keep.resolve(), prefix="pipeline-"))
        else:
            made = tempfile.TemporaryDirectory(prefix="witness-", ignore_cleanup_errors=True)
            directory = Path(ends.enter_context(made))
        yield ends.enter_context(
            Pipeline(
                directory,
                options.penstock.resolve(),
                kafka=options.kafka,
                small_disk=small_disk,
                brokers=options.brokers,
            )
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.witness", description=__doc__)
    parser.add_argument("--runs", type=int, default=GROUP, help="seeds, one after the other")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--penstock", type=Path, default=REPOSITORY, help="another checkout")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka for the broker")
    parser.add_argument(
        "--brokers", type=int, default=1, help="so many, with every partition on all of them"
    )
    parser.add_argument("--seconds", type=float, default=0, help="begins no batch after so long")
    parser.add_argument(
        "--only", action="append", choices=KINDS, default=[], help="faults that may happen"
    )
    parser.add_argument(
        "--with-kept", action="store_true", help="open files outlive the agent in every run"
    )
    parser.add_argument("--script", type=Path, action="append", default=[], help="run this file")
    parser.add_argument("--shrink", type=float, default=0, help="seconds for each wrong run")
    parser.add_argument(
        "--kept", type=Path, default=REPOSITORY / ".cache/witness", help="for wrong scripts"
    )
    parser.add_argument("--keep", type=Path, help="works in this folder, and leaves it there")
    parser.add_argument("--side-by-side", type=int, default=GROUP, help="runs of a batch")
    options = parser.parse_args()
    if options.kafka and options.brokers > 1:
        parser.error("--brokers is of Penstock's brokers, and not of --kafka")
    return options


def _scripts(options: argparse.Namespace) -> list[Script]:
    if options.script:
        return [parse(each.read_text()) for each in options.script]
    seeds = range(options.seed, options.seed + options.runs)
    cluster, kept = options.brokers > 1, options.with_kept
    return [script_of(seed, options.only, cluster=cluster, kept=kept) for seed in seeds]


def batches(scripts: Sequence[Script], most: int = GROUP) -> Iterator[list[Script]]:
    """Those that have their shared events in common, in their order."""
    waiting: list[Script] = []
    for script in scripts:
        if waiting and (script.shared != waiting[0].shared or len(waiting) == most):
            yield waiting
            waiting = []
        waiting.append(script)
    if waiting:
        yield waiting


def _shorten(pipeline: Pipeline, outcome: Outcome, options: argparse.Namespace) -> None:
    """Of what broke the same rules, the shortest script that is found in time."""
    until = time.monotonic() + options.shrink
    rules = {each.rule for each in outcome.objections}

    def goes_wrong(scripts: Sequence[Script]) -> list[bool]:
        found = [
            each for batch in batches(scripts) for each in run(pipeline, batch, lambda _: None)
        ]
        return [not rules.isdisjoint(one.rule for one in each.objections) for each in found]

    found = shrink(outcome.script, goes_wrong, lambda: time.monotonic() < until)
    path = options.kept / f"{outcome.script.seed}.short"
    path.write_text(str(found))
    before = len(outcome.script.actions)
    _say(f"seed {found.seed}: {len(found.actions)} of {before} actions are enough: {path}")


def _show(outcome: Outcome, kept: Path) -> None:
    script = outcome.script
    verdict = "right" if outcome.right else ", ".join(outcome.kinds) or "no run"
    _say(
        f"seed {script.seed}: {verdict}; said {outcome.state or 'nothing'} ({outcome.exit_code});"
        f" of {outcome.lines} lines {outcome.lost} lost, {outcome.double} double;"
        f" {len(script.actions)} actions"
    )
    if outcome.error:
        _say(f"    {outcome.error}")
    if not outcome.right or outcome.needless:
        kept.mkdir(parents=True, exist_ok=True)
        said = [f"# {each}" for each in (*outcome.objections, *outcome.needless)]
        called = [f"# found: {each}" for each in outcome.findings]
        text = str(script) + "\n".join([*said, *called]) + "\n"
        (kept / f"{script.seed}.script").write_text(text)
        for each in (*outcome.objections, *outcome.needless):
            _say(f"    {each}")


def _summary(outcomes: Sequence[Outcome], happened: Counter[str], seconds: float) -> None:
    wrong = [each for each in outcomes if each.objections and not each.error]
    kinds = Counter(kind for each in wrong for kind in each.kinds)
    rules = Counter(rule for each in wrong for rule in {one.rule for one in each.objections})
    failed = sum(bool(each.error) for each in outcomes)
    _say(
        f"{len(outcomes)} runs in {seconds:.0f} s: {len(wrong)} wrong"
        + "".join(f", {count} {kind}" for kind, count in kinds.most_common())
        + (f"; {failed} could not be made" if failed else "")
    )
    green = sum(GREEN in each.kinds for each in wrong)
    kept = [each for each in outcomes if each.script.kept and not each.error]
    needless = [len(each.needless) for each in kept]
    statements = sum(is_of_an_agent(called) for each in kept for called in each.findings)
    _say(
        f"    {green} falsely green, {sum(needless)} false unknown of {statements} statements,"
        f" in {sum(map(bool, needless))} of {len(needless)} runs with kept files"
    )
    lines, lost = sum(each.lines for each in outcomes), sum(each.lost for each in outcomes)
    double = sum(each.double for each in outcomes)
    unsaid = sum(len(one.lines) for each in wrong for one in each.objections if "hole" in one.rule)
    _say(f"    {lines} lines written, {lost} in no row, {unsaid} of them unsaid; {double} in two")
    for what, count in sorted(happened.items()):
        _say(f"    {what:<26} {count:>6} times")
    for rule, count in rules.most_common():
        _say(f"    rule {rule:<17} broken in {count} runs")
    actions = Counter(action.verb for each in outcomes for action in each.script.actions)
    in_wrong = Counter(
        verb for each in wrong for verb in {action.verb for action in each.script.actions}
    )
    done = sum((each.done for each in outcomes), Counter())
    for verb, count in sorted(actions.items()):
        possible = f", {done[verb]} of them possible" if verb in PRIVATE else ""
        _say(f"    {verb:<17} {count:>6} times{possible}, in {in_wrong[verb]} wrong runs")


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    sys.exit(main())
