"""What is said at the end: each series in a line, and what is wrong.

From the samples alone, so that it can be said again of any run."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from tests.soak.flatness import TOLERANCES, Kind, Span, Trend, trend_of
from tests.soak.sampling import Series

_HEAD: Final = ("series", "level", "an hour", "finds", "lives", "")


class Judged(msgspec.Struct, frozen=True):
    name: str
    trend: Trend

    def row(self) -> tuple[str, ...]:
        trend = self.trend
        words = TOLERANCES[trend.kind].words
        rate = f"{'+' if trend.slope >= 0 else '-'}{words(abs(trend.slope))}"
        finds = words(trend.finds) if trend.judged else ""
        return self.name, words(trend.level), rate, finds, str(trend.lives), trend.word


def judged(series: Sequence[Series], span: Callable[[Kind], Span]) -> list[Judged]:
    return [
        Judged(each.name, trend_of(each.kind, each.points, span(each.kind)))
        for each in sorted(series, key=lambda one: list(Kind).index(one.kind))
        if each.kind in TOLERANCES
    ]


def objections(found: Sequence[Judged]) -> Iterator[str]:
    for each in found:
        if each.trend.grows:
            words = TOLERANCES[each.trend.kind].words
            yield (
                f"{each.name} grows by {words(each.trend.slope)} an hour;"
                f" {words(TOLERANCES[each.trend.kind].hourly)} are allowed"
            )


def table(found: Sequence[Judged]) -> str:
    """In Markdown, aligned for people."""
    rows = [_HEAD, *(each.row() for each in found)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    return "\n".join(
        [lines[0], "|" + "|".join("-" * (each + 2) for each in widths) + "|", *lines[1:]]
    )
