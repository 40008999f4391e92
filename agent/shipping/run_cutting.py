"""Runs cut where a batch is cut, so that each part names exactly the bytes in it. Pure.

Where in the file an event starts, its header says. Not written anywhere is which of several lines
that became one event each, and which lines between them were excepted: of a run that is cut, each
part but the last has a line for every event, and the last has what is left, so that sums hold.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from agent.accounts import bytes_of_events, divided
from agent.runs import Excepted, Fate, Run, SourceId, WindowCount
from agent.shipping.event_headers import EventHeader


def cut_runs(
    runs: Iterable[Run], counts: Sequence[int], positions: Sequence[int]
) -> Iterator[tuple[Run, ...]]:
    """The runs of consecutive parts of a batch, with so many events each.

    `positions` say for each part where in its file its first event starts.
    """
    left = list(runs)[::-1]
    for part, count in enumerate(counts):
        mine: list[Run] = []
        wanted = count
        while wanted and left:
            run = left.pop()
            if run.events > wanted:
                run, rest = divided(run, wanted, positions[part + 1])
                left.append(rest)
            wanted -= run.events
            mine.append(run)
        if part == len(counts) - 1:
            mine += left[::-1]
        yield tuple(mine)


def dead_lettered(run: Run, reason: str) -> Run:
    """A run of one event that its topic refused: it is none any more."""
    if not run.events:
        return run
    refused = Excepted(Fate.DEAD_LETTERED, run.lines, bytes_of_events(run), reason)
    return replace(run, events=0, lines=0, excepted=(*run.excepted, refused))


def dead_lettered_of_spread(header: EventHeader, reason: str) -> Run:
    """The same for an event whose run is told without offsets, and counts it: an empty stretch."""
    place = header.position
    refused = Excepted(Fate.DEAD_LETTERED, 1, 0, reason)
    return Run(SourceId(header.source), header.seq, 0, place, place, 0, (refused,))


def window_counts(times: Iterable[int], window_millis: int) -> tuple[WindowCount, ...]:
    counts: dict[int, int] = {}
    for time in times:
        start = time - time % window_millis
        counts[start] = counts.get(start, 0) + 1
    return tuple(WindowCount(start, counts[start]) for start in sorted(counts))


def cut_delays(delays: Sequence[int], parts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """How late the events of each part were, given their times: as all were had at one time, the
    latest were the least late."""
    if sum(delays) != sum(map(len, parts)):
        return [() for _ in parts]  # not measured
    latest_first = sorted(
        ((time, part) for part, times in enumerate(parts) for time in times), reverse=True
    )
    found = [[0] * len(delays) for _ in parts]
    buckets = (bucket for bucket, count in enumerate(delays) for _ in range(count))
    for (_, part), bucket in zip(latest_first, buckets, strict=True):
        found[part][bucket] += 1
    return [tuple(each) for each in found]
