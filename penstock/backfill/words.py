"""The verdict on a backfill in words, the worst first."""

from collections.abc import Iterator
from typing import Final

from audit.headline import MARKS, NOT_LOADED
from audit.reconciling.findings import State
from penstock.backfill.verdict import BackfillVerdict

_FEW: Final = 20  # archives


def verdict_title(verdict: BackfillVerdict) -> str:
    """The verdict in one line."""
    state = verdict.state
    if state is State.EMPTY:
        return f"{MARKS[state]} {state.value}: no archive was read as a source of its own"
    if state is State.COMPLETE:
        return f"{MARKS[state]} {state.value}: {_complete(verdict)}"
    progress = f"{verdict.arrived:,} of {_archives(verdict.archives)} arrived"
    if state is State.PENDING and verdict.not_loaded:
        return f"{NOT_LOADED} not loaded: {progress}; {verdict.not_loaded}"
    return f"{MARKS[state]} {state.value}: {progress}"


def verdict_lines(verdict: BackfillVerdict, topic: str) -> Iterator[str]:
    """The verdict, and below it what is missing or waited for."""
    yield verdict_title(verdict)
    for archive in verdict.incomplete[:_FEW]:
        name = archive.path or f"source {archive.source}"
        yield f"  {MARKS[archive.state]} {name}: {'; '.join(archive.words)}"
    if (more := verdict.incomplete_total - _FEW) > 0:
        yield f"  and {_archives(more)} more, in --json"
    if count := verdict.to_read:
        verb = "is" if count == 1 else "are"
        yield f"  {MARKS[State.PENDING]} waits for an agent: {_archives(count)} {verb} to be read"
    if count := verdict.from_other_files:
        yield (
            f"  i the lines of {_archives(count)} were read from other files, or made no events; "
            f"penstock report {topic} has the verdict on those files"
        )
    if count := verdict.skipped:
        yield f"  i {_archives(count)} skipped, without a verdict"


def _complete(verdict: BackfillVerdict) -> str:
    events = "1 event" if verdict.events == 1 else f"{verdict.events:,} events"
    place = " and ".join(verdict.destinations) or "the log, from which nothing is loaded"
    parts = [f"{events} in {place}"]
    if verdict.filtered:
        parts.append(f"{verdict.filtered:,} filtered")
    if verdict.dead:
        parts.append(f"{verdict.dead:,} dead-lettered")
    subject = f"every line of {_archives(verdict.archives)} is accounted for"
    return f"{subject}: {', '.join(parts)}"


def _archives(count: int) -> str:
    return "1 archive" if count == 1 else f"{count:,} archives"
