"""A command's output: the standard streams, tables for people, JSON for programs (`--json`).

`open_streams` opens streams that the parent has closed, whose numbers the first file or socket
would take, and makes them accept any text, as a terminal's encoding may lack a verdict's mark.

On a terminal a table is drawn and fitted to its width, with colours unless NO_COLOR is set;
anywhere else it is plain aligned text, unabridged, one line per row.
"""

import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TextIO, TypeVar

import click

from ground.printable import one_line

Row = Mapping[str, Any]  # what json can write
_PLAIN: Final[Mapping[str, str]] = {}
F = TypeVar("F", bound=Callable[..., Any])


def open_streams() -> None:
    """Opens standard streams that are closed, and escapes characters that a stream's encoding
    lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null_fd = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null_fd, mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def give_up(stream: TextIO) -> None:
    """Redirects a broken stream to /dev/null.

    Buffered output would otherwise fail again with the next line, and at exit.
    """
    null_fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_fd, stream.fileno())
    os.close(null_fd)


def has_colours() -> bool:
    """Whether the user's environment allows colours."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_json(document: Any) -> None:
    # Help does not wait for it to be imported.
    import json  # noqa: PLC0415

    print(json.dumps(document, ensure_ascii=False))


def print_table(
    columns: Sequence[str], rows: Sequence[Row], *, styles: Mapping[str, str] = _PLAIN
) -> None:
    """Prints rows below the names of their columns. `styles` has the colours of values on a
    terminal."""
    cells = [[_text(row[column]) for column in columns] for row in rows]
    titles = [column.replace("_", " ") for column in columns]
    numeric = [
        any(_is_number(row[column]) for row in rows)
        and all(row[column] is None or _is_number(row[column]) for row in rows)
        for column in columns
    ]
    if sys.stdout.isatty():
        _draw(titles, cells, numeric, styles)
        return
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    for line in [titles, *cells]:
        padded_cells = [
            text.rjust(width) if is_right_aligned else text.ljust(width)
            for text, width, is_right_aligned in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(padded_cells).rstrip())


def _draw(
    titles: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    styles: Mapping[str, str],
) -> None:
    # Only a terminal waits for rich to be imported.
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for title, is_right_aligned in zip(titles, numeric, strict=True):
        table.add_column(title, justify="right" if is_right_aligned else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(text, style=styles.get(text, "")) for text in row))
    Console().print(table)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return one_line(str(value))


def say(text: str, *, colour: str | None = None) -> None:
    """Prints one line to stdout, coloured on a terminal, with control characters escaped."""
    click.secho(one_line(text), fg=colour)


def json_option(command: F) -> F:
    """Adds the option --json, as parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
