"""Runs added up and divided, so that every byte and line stays counted once. Pure.

What nobody knew of a part, nobody knows of the sum: -1 stays -1.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from agent.runs import Excepted, Fate, Run

UNKNOWN = -1


def added_up(excepted: Iterable[Excepted]) -> tuple[Excepted, ...]:
    """One for each fate and reason."""
    sums: dict[tuple[Fate, str], Excepted] = {}
    for each in excepted:
        key = each.fate, each.reason
        known = sums.get(key)
        sums[key] = each if known is None else _sum(known, each)
    return tuple(sums.values())


def joined(first: Run, second: Run) -> Run:
    """One run of two that follow each other."""
    return replace(
        first,
        events=first.events + second.events,
        end_position=second.end_position,
        lines=first.lines + second.lines,
        excepted=added_up((*first.excepted, *second.excepted)),
    )


def divided(run: Run, events: int, position: int) -> tuple[Run, Run]:
    """The first so many events, and the others, of which the first starts at this position.

    Nobody knows which lines were excepted before it: each event of the first part counts for one
    line, and the rest is said of the second.
    """
    lines = min(events, run.lines)
    return (
        replace(run, events=events, end_position=position, lines=lines, excepted=()),
        replace(
            run,
            seq=run.seq + events,
            events=run.events - events,
            position=position,
            lines=run.lines - lines,
        ),
    )


def is_loss(run: Run) -> bool:
    """What was lost is a run of its own, so that its bytes have a name."""
    return any(each.fate is Fate.LOST for each in run.excepted)


def bytes_of_events(run: Run) -> int:
    """Those of the file that became its events."""
    if any(each.bytes < 0 for each in run.excepted):
        return UNKNOWN
    return run.end_position - run.position - sum(each.bytes for each in run.excepted)


def _sum(one: Excepted, other: Excepted) -> Excepted:
    return replace(
        one, count=_known_sum(one.count, other.count), bytes=_known_sum(one.bytes, other.bytes)
    )


def _known_sum(one: int, other: int) -> int:
    return UNKNOWN if one < 0 or other < 0 else one + other
