"""Which file a source is of which no line was ever seen. Pure.

A finding names a stretch of bytes, and how many events are in it. It begins and ends where lines
do, so of the files that had its path there is nearly always just one that it fits.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from tests.campaigns.witness.truth import NEVER, File
from tests.campaigns.witness.verdict import Called

_Misfit = tuple[bool, int, int, int, int]
_EXACT: Final = (False, 0, 0)


def guess_files(
    called: Iterable[Called], files: Sequence[File], lost: Collection[str]
) -> dict[str, File]:
    """By source. Each file is one source's; of whom most is known, and whom the fewest fit, comes
    first."""
    by_source: dict[str, list[Called]] = {}
    for each in called:
        if each.source and each.path:
            by_source.setdefault(each.source, []).append(each)
    fits: dict[str, list[tuple[_Misfit, int]]] = {}
    for source, some in by_source.items():
        fits[source] = sorted(
            (_misfit(some, file, lost), number)
            for number, file in enumerate(files)
            if file.lines and any(each.path in file.names for each in some)
        )

    def vagueness(source: str) -> tuple[bool, int, int]:
        is_vague = all(each.end_position < 0 for each in by_source[source])
        exact = sum(misfit[:3] == _EXACT for misfit, _ in fits[source])
        return is_vague, exact, min(map(_end, by_source[source]))

    found: dict[str, File] = {}
    taken: set[int] = set()
    for source in sorted(fits, key=vagueness):
        left = (number for _, number in fits[source] if number not in taken)
        if (best := next(left, None)) is not None:
            found[source] = files[best]
            taken.add(best)
    return found


def _misfit(called: Sequence[Called], file: File, lost: Collection[str]) -> _Misfit:
    """The smaller the better."""
    edges = {0, file.size}
    for line in file.lines:
        edges |= {line.start, line.start + len(line.beginning.encode()), line.end}
    odd = wrong = landed = 0
    time = NEVER
    for each in called:
        named = [line for line in file.lines if line.start < _end(each)]
        odd += len({each.position, each.end_position} - edges - {-1})
        if each.events >= 0 and each.end_position >= 0 and "within bytes" not in each.words:
            there = sum(line.end > each.position for line in named)
            wrong += abs(there - each.events)
        landed += sum(line.text not in lost for line in named)
        time = min([time, *(abs(line.written - each.from_time) for line in named)])
    is_beyond = any(_end(each) > file.size for each in called)
    return is_beyond, odd, wrong, landed, time


def _end(called: Called) -> int:
    """To where a file is spoken of: what is unknown beyond a byte was known up to it."""
    return called.end_position if called.end_position >= 0 else called.position
