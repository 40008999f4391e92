"""`python -m tests.restarts --runs 10 --seed 1`: restarts of an agent beside rotations.

A line for each restart and for each topic that is not right, then a table; exit code 0 if every
topic was right, 1 if one was not. A restart can be played again by its seed.
"""

import argparse
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from ground.printable import one_line
from harness.systemd_process import why_no_systemd
from tests.restarts.judging import Outcome
from tests.restarts.plans import Style, restart_plan
from tests.restarts.playing import Played, WrongTopic, play
from tests.restarts.site import AGENTS, Agent, Site

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_LONGEST: Final = 400  # letters of one reason
_PARTICULARS: Final = [
    (re.compile(r"(new|gone|doubled|lost|emptied): [^;]*"), r"\1: …"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "T"),
    (re.compile(r"/\S+"), "PATH"),
    (re.compile(r"\[source \w+\]"), ""),
    (re.compile(r"\b\d[\d,]*"), "N"),
]


def main() -> int:
    options = _options()
    # As Ctrl-C: whatever was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    played: list[Played] = []
    for environment in options.environment or list(AGENTS):
        if environment == "systemd" and (why := why_no_systemd()):
            _say(f"no runs under systemd: {why}")
            continue
        began = time.monotonic()
        found = []
        with _agent(options, environment) as (site, agent):
            for seed in range(options.seed, options.seed + options.runs):
                plan = restart_plan(seed, site.logs, agent.signals)
                found += play(site, agent, [plan])
                _show(found[-1], environment)
        _say(f"\n{environment}, {len(found)} restarts in {time.monotonic() - began:.0f} s")
        _say(table(found))
        if any(each.wrong for each in found):
            again = f"--environment {environment} --seed {options.seed} --runs {len(found)}"
            _say(f"played again by {again}: what an agent went through before matters, too")
        for group, count in groups(found).most_common():
            _say(f"{count:>5} topics: {group}")
        played += found
    return int(any(each.wrong for each in played))


@contextmanager
def _agent(options: argparse.Namespace, environment: str) -> Iterator[tuple[Site, Agent]]:
    with ExitStack() as ends:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            directory = Path(tempfile.mkdtemp(dir=options.keep.resolve(), prefix=environment))
        else:
            made = tempfile.TemporaryDirectory(prefix="restarts-", ignore_cleanup_errors=True)
            directory = Path(ends.enter_context(made))
        site = ends.enter_context(Site(directory, options.penstock.resolve()))
        yield site, ends.enter_context(AGENTS[environment](site))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.restarts", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="restarts, one after the other")
    parser.add_argument("--seed", type=int, default=1, help="of the first of them")
    parser.add_argument(
        "--environment",
        action="append",
        choices=list(AGENTS),
        help="who keeps the agent's files: each, without it",
    )
    parser.add_argument("--penstock", type=Path, default=REPOSITORY, help="another checkout")
    parser.add_argument("--keep", type=Path, help="works in this folder, and leaves it there")
    return parser.parse_args()


def _show(played: Played, environment: str) -> None:
    counts = Counter(each.outcome for each in played.judgements)
    restart = played.restart
    began = f"ready {restart.ready:.2f} s, first look" if restart.ready else "first look"
    since = "its start" if restart.ready else "SIGCONT"
    _say(
        f"seed {played.seed}, {played.signal}, {environment}: "
        + ", ".join(f"{counts[each]} {each}" for each in Outcome if counts[each])
        + f"; away {restart.away:.2f} s, {began} {restart.look:.2f} s after {since};"
        f" {played.lines} lines"
    )
    for each in played.wrong:
        _show_wrong(each)


def _show_wrong(wrong: WrongTopic) -> None:
    judgement, topic = wrong.judgement, wrong.judgement.topic
    matches = "live and rotated" if topic.rotated_match else "live"
    gap = ", with a gap" if topic.style is Style.COPYTRUNCATE and topic.gap else ""
    _say(
        f"  {topic.name} {judgement.outcome}, {judgement.state}: {topic.style}{gap}, "
        f"{topic.moment} ({wrong.rotated}); {topic.files} files, {topic.layout}, "
        f"pattern for {matches} names"
    )
    for word in judgement.words:
        _say(f"      {one_line(word)[:_LONGEST]}")
    for line in wrong.log:
        _say(f"      log: {one_line(line)[:_LONGEST]}")


def table(played: Sequence[Played]) -> str:
    """Signal by style: topics right, and each kind of wrong."""
    rows = [["", *Style]]
    for kind in dict.fromkeys(each.signal for each in played):
        counts = [
            Counter(
                judgement.outcome
                for each in played
                if each.signal is kind
                for judgement in each.judgements
                if judgement.topic.style is style
            )
            for style in Style
        ]
        rows += [[f"{kind}: {each}", *(str(one[each]) for one in counts)] for each in Outcome]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            word.ljust(width) if column == 0 else word.rjust(width)
            for column, (word, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def groups(played: Sequence[Played]) -> Counter[str]:
    """How many topics that were not right had each reason, without names and times."""
    found: Counter[str] = Counter()
    for wrong in (each for one in played for each in one.wrong):
        words = (each for each in wrong.judgement.words if not each.startswith("and "))
        reasons = {generalized(word) for word in words}
        found.update(f"{wrong.judgement.outcome}: {reason}" for reason in reasons)
    return found


def generalized(reason: str) -> str:
    """A reason of the audit without what differs from topic to topic."""
    for pattern, word in _PARTICULARS:
        reason = pattern.sub(word, reason)
    return one_line(reason)[:_LONGEST]


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    sys.exit(main())
