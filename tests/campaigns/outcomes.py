"""What became of a run: objections, by the rule that was broken, and how both are told."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from confluent_kafka import KafkaException

from client.errors import ClientError
from cluster.errors import ClusterError, EmbeddedError
from harness.processes.server_process import ServerFailed
from tests.campaigns.history import History, Trouble
from tests.campaigns.script import Script

SCRIPT: Final = "run.script"
OBJECTIONS: Final = "objections"
POSSIBLE: Final = "possible: "  # counts of a verb: of interest in the summary only
_SHOWN: Final = 6
Say = Callable[[str], None]


class NoRun(Exception):
    """A run could not be made: it shows nothing."""


NO_RUN: Final = (
    *(NoRun, ServerFailed, TimeoutError, OSError),
    *(KafkaException, ClientError, ClusterError, EmbeddedError),
)


class Objection(msgspec.Struct, frozen=True):
    rule: str
    words: str
    partition: int = -1

    @property
    def kind(self) -> str:
        """What several rules have in common, if a campaign tells such kinds apart."""
        return ""

    def __str__(self) -> str:
        where = f"partition {self.partition}: " if self.partition >= 0 else ""
        return f"[{self.rule}] {where}{self.words}"


def troubles(history: History) -> Iterator[Objection]:
    """What was noted as such."""
    for each in history.of(Trouble):
        rule, _, words = each.what.partition(": ")
        yield Objection(rule, f"{words}, at {each.at:.3f}")


class Outcome(msgspec.Struct, frozen=True):
    script: Script
    objections: Sequence[Objection]
    seconds: float = 0.0
    counts: Mapping[str, int] = {}
    error: str = ""  # the run could not be made: nobody knows
    figures: Sequence[str] = ()  # in words
    remarks: Sequence[Objection] = ()  # that make no run wrong, and are kept

    @property
    def right(self) -> bool:
        return not self.objections and not self.error

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.rule for each in self.objections))

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted({each.kind for each in self.objections} - {""}))


def outcome_of(
    script: Script,
    directory: Path,
    play: Callable[[], Sequence[Objection]],
    counts: Callable[[], Mapping[str, int]],
) -> Outcome:
    """Of a run in a directory that is new. `play` says what is wrong with it."""
    directory.mkdir(parents=True)
    (directory / SCRIPT).write_text(str(script))
    began = time.monotonic()
    objections: Sequence[Objection] = ()
    error = ""
    try:
        objections = play()
    except NO_RUN as failure:
        error = f"{type(failure).__name__}: {failure}"
    return Outcome(script, objections, time.monotonic() - began, counts(), error)


def keep(outcome: Outcome, directory: Path) -> None:
    """The script, with what is wrong and what was found."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / SCRIPT).write_text(str(outcome.script))
    said = [*map(str, (*outcome.objections, *outcome.remarks)), *outcome.figures]
    said += [outcome.error] if outcome.error else []
    (directory / OBJECTIONS).write_text("\n".join(said) + "\n")


def told(outcome: Outcome, directory: Path | None) -> Iterator[str]:
    """Of one run; `directory`: where it stays, if it does."""
    script = outcome.script
    verdict = ", ".join(outcome.kinds or outcome.rules)
    verdict = "no run" if outcome.error else verdict or "right"
    shown = {name: count for name, count in outcome.counts.items() if POSSIBLE not in name}
    counts = ", ".join(f"{count} {name}" for name, count in shown.items() if count)
    actions = f"{len(script.actions)} actions"
    yield f"seed {script.seed}: {verdict}; {outcome.seconds:.0f} s, {actions}; {counts}"
    if outcome.error:
        yield f"    {outcome.error}"
    for rule in dict.fromkeys(each.rule for each in (*outcome.objections, *outcome.remarks)):
        broken = [each for each in (*outcome.objections, *outcome.remarks) if each.rule == rule]
        yield from (f"    {each}" for each in broken[:_SHOWN])
        if len(broken) > _SHOWN:
            yield f"    [{rule}] and {len(broken) - _SHOWN} more"
    yield from (f"    {each}" for each in outcome.figures)
    if directory is not None and (not outcome.right or outcome.remarks):
        yield f"    kept in {directory}"


def summary(outcomes: Sequence[Outcome], seconds: float) -> Iterator[str]:
    wrong = [each for each in outcomes if each.objections and not each.error]
    failed = sum(bool(each.error) for each in outcomes)
    kinds = Counter(kind for each in wrong for kind in each.kinds)
    yield (
        f"{len(outcomes)} runs in {seconds:.0f} s: {len(wrong)} wrong"
        + "".join(f", {count} {kind}" for kind, count in kinds.most_common())
        + (f"; {failed} could not be made" if failed else "")
    )
    counts: Counter[str] = Counter()
    for each in outcomes:
        counts.update(each.counts)
    yield from (f"    {name:<26} {count:>8}" for name, count in counts.items())
    for rule, count in Counter(rule for each in wrong for rule in each.rules).most_common():
        yield f"    rule {rule:<21} broken in {count} runs"
    actions = Counter(_verbs(outcomes))
    in_wrong = Counter(verb for each in wrong for verb in set(_verbs([each])))
    for verb, count in sorted(actions.items()):
        yield f"    {verb:<26} {count:>8} times, in {in_wrong[verb]} wrong runs"


def _verbs(outcomes: Iterable[Outcome]) -> Iterator[str]:
    return (action.verb for each in outcomes for action in each.script.actions)
