"""Adds and divides runs so that every byte and line stays counted exactly once. Pure.

A count of -1 is unknown, and so is every sum with an unknown part.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from agent.accounting.runs import Excepted, Fate, Run

UNKNOWN = -1


def added_up(excepted: Iterable[Excepted]) -> tuple[Excepted, ...]:
    """Sums excepted lines. The result has one entry for each fate and reason."""
    sums: dict[tuple[Fate, str], Excepted] = {}
    for excepted_lines in excepted:
        key = excepted_lines.fate, excepted_lines.reason
        previous = sums.get(key)
        sums[key] = excepted_lines if previous is None else _sum(previous, excepted_lines)
    return tuple(sums.values())


def joined(first: Run, second: Run) -> Run:
    """Joins two consecutive runs into one."""
    return replace(
        first,
        events=first.events + second.events,
        end_position=second.end_position,
        lines=first.lines + second.lines,
        excepted=added_up((*first.excepted, *second.excepted)),
    )


def divided(run: Run, events: int, position: int) -> tuple[Run, Run]:
    """Divides a run in two after its first `events` events; the second part starts at `position`.

    It is unknown which excepted lines lay before that position, so each event of the first part
    counts as one line, and all that is excepted belongs to the second part.
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
    """Whether the run records a loss. A loss is always a run of its own."""
    return any(excepted.fate is Fate.LOST for excepted in run.excepted)


def bytes_of_events(run: Run) -> int:
    """The number of bytes in the file that became events of the run; UNKNOWN if it cannot be
    computed."""
    if any(excepted.bytes < 0 for excepted in run.excepted):
        return UNKNOWN
    return run.end_position - run.position - sum(excepted.bytes for excepted in run.excepted)


def _sum(first: Excepted, other: Excepted) -> Excepted:
    return replace(
        first,
        count=_known_sum(first.count, other.count),
        bytes=_known_sum(first.bytes, other.bytes),
    )


def _known_sum(first: int, other: int) -> int:
    return UNKNOWN if first < 0 or other < 0 else first + other
