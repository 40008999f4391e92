"""A table as lines of a width: columns that do not fit are left out, then names are cut. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.text import Text

_GAP: Final = 2
_SHORTEST: Final = 8  # of a cell that is cut


class Column(NamedTuple):
    """`rank` says which goes first where there is no room, the highest; 0 never does, and is cut
    instead."""

    title: str
    cells: Sequence[Text]
    rank: int
    right: bool = False


def table(columns: Sequence[Column], width: int) -> list[Text]:
    """A line with the titles, if there are any, and one for each row."""
    widths = [max((each.cell_len for each in _all(column)), default=0) for column in columns]
    shown = [index for index, column in enumerate(columns) if widths[index]]
    while (over := _width(widths, shown) - width) > 0:
        most = max(shown, key=lambda index: columns[index].rank)
        if columns[most].rank == 0:
            widest = max(shown, key=lambda index: widths[index])
            if widths[widest] <= _SHORTEST:
                break
            widths[widest] = max(_SHORTEST, widths[widest] - over)
        else:
            shown.remove(most)
    lines = [
        _line([(row[index], widths[index], columns[index].right) for index in shown], width)
        for row in zip(*(_all(column) for column in columns), strict=True)
    ]
    return lines if any(column.title for column in columns) else lines[1:]


def _all(column: Column) -> list[Text]:
    return [Text(column.title, style="dim"), *column.cells]


def _width(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[index] + _GAP for index in shown) - _GAP


def _line(cells: Sequence[tuple[Text, int, bool]], width: int) -> Text:
    line = Text(no_wrap=True)
    for index, (cell, wide, right) in enumerate(cells):
        fitted = cell.copy()
        fitted.truncate(wide, overflow="ellipsis")
        space = " " * (wide - fitted.cell_len)
        line.append(" " * (_GAP if index else 0))
        line.append_text(Text(space) + fitted if right else fitted + Text(space))
    line.rstrip()
    line.truncate(width, overflow="ellipsis")
    return line
