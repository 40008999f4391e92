"""The picture on the screen of `penstock up`: programs, topics, the verdict, and where to look.
Pure.

It fits any size of terminal. If there are too few lines, topics and notes are dropped first, then
empty lines; the rest is cut. Columns of a table that do not fit are dropped, then names are cut.
"""

import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from rich.text import Text

from penstock.directory.locks import ADMIN
from penstock.status.values import PipelineStatus, Rates, TopicStatus
from penstock.status.words import (
    NOT_LOADED,
    count,
    duration,
    failing_words,
    load_words,
    pause,
    rate,
    shown,
    size,
    topic_words,
    verdict_words,
    waiting_words,
)
from penstock.up.programs import ProgramPhase, ProgramStatus

_GAP: Final = 2
_SHORTEST: Final = 8  # characters that a cut cell keeps
_SIGNS: Final = {
    ProgramPhase.WAITING: ("·", "dim"),
    ProgramPhase.STARTING: ("…", "yellow"),
    ProgramPhase.RUNNING: ("✓", "green"),
    ProgramPhase.DEAD: ("✗", "red"),
    ProgramPhase.STOPPING: ("…", "yellow"),
    ProgramPhase.STOPPED: ("·", "dim"),
}
_ENDING: Final = {ProgramPhase.STOPPING, ProgramPhase.STOPPED}
_HOW_TO_FOLLOW: Final = (
    "No lines have come yet. To follow files: penstock up --follow '/var/log/*.log'"
)
_FOLLOWED: Final = "No lines have come yet from the followed files: penstock agent --status"
_WIDEST: Final = 100
_LAST_LINES: Final = 3
_REMARKS: Final = 3
_MOST_LINES: Final = 3  # of one remark
_NARROWEST: Final = 20
_NOTES: Final = 8
_FEWEST_TOPICS: Final = 3


class Column(NamedTuple):
    """A column. If there is no room, the column of the highest `rank` is dropped first; a column of
    rank 0 is truncated instead."""

    title: str
    cells: Sequence[Text]
    rank: int
    right: bool = False


def table(columns: Sequence[Column], width: int) -> list[Text]:
    """Returns a line with the titles, if there are any, and one for each row."""
    widths = [max((cell.cell_len for cell in _all(column)), default=0) for column in columns]
    indexes = [index for index, column in enumerate(columns) if widths[index]]
    while (excess := _width(widths, indexes) - width) > 0:
        droppable = max(indexes, key=lambda index: columns[index].rank)
        if columns[droppable].rank == 0:
            widest_index = max(indexes, key=lambda index: widths[index])
            if widths[widest_index] <= _SHORTEST:
                break
            widths[widest_index] = max(_SHORTEST, widths[widest_index] - excess)
        else:
            indexes.remove(droppable)
    lines = [
        _line([(row[index], widths[index], columns[index].right) for index in indexes], width)
        for row in zip(*(_all(column) for column in columns), strict=True)
    ]
    return lines if any(column.title for column in columns) else lines[1:]


def _all(column: Column) -> list[Text]:
    return [Text(column.title, style="dim"), *column.cells]


def _width(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[index] + _GAP for index in shown) - _GAP


def _line(cells: Sequence[tuple[Text, int, bool]], width: int) -> Text:
    line = Text(no_wrap=True)
    for index, (cell, cell_width, is_right_aligned) in enumerate(cells):
        text = cell.copy()
        text.truncate(cell_width, overflow="ellipsis")
        padding = " " * (cell_width - text.cell_len)
        line.append(" " * (_GAP if index else 0))
        line.append_text(Text(padding) + text if is_right_aligned else text + Text(padding))
    line.rstrip()
    line.truncate(width, overflow="ellipsis")
    return line


class ScreenState(msgspec.Struct, frozen=True):
    """Everything that one frame of the screen shows."""

    programs: Sequence[ProgramStatus]
    status: PipelineStatus | None
    rates: Rates
    notes: Sequence[str]
    directory: Path
    here: Path  # the working directory
    dashboard: str
    password: Path | None  # the admin's password for the dashboard; None if it needs no login
    loads: str  # what the loader is doing; empty if no load runs
    elsewhere: bool  # whether the addresses differ from the defaults
    follows: bool  # whether the agent has inputs
    now: float


def all_run(programs: Sequence[ProgramStatus]) -> bool:
    return all(program.phase is ProgramPhase.RUNNING for program in programs)


def picture(seen: ScreenState, width: int, height: int) -> list[Text]:
    """Returns the picture as at most `height` lines of at most `width` columns."""
    width = min(width, _WIDEST)
    topics = _topics(seen, width)
    notes = [_cut(note, width) for note in seen.notes[-_NOTES:]]
    parts = [_head(seen, width), _programs(seen, width), topics, _sums(seen, width), notes]
    parts = [part for part in [*parts, _places(seen, width)] if part]
    excess = sum(map(len, parts)) + len(parts) - 1 - height
    if excess > 0 and notes:
        dropped_count = min(excess, len(notes) - 1)
        del notes[:dropped_count]
        excess -= dropped_count
    if excess > 0 and len(topics) > 1 + _FEWEST_TOPICS:
        dropped_count = min(excess + 1, len(topics) - 1 - _FEWEST_TOPICS)
        del topics[-dropped_count:]
        topics.append(_cut(f"and {dropped_count} more", width, "dim"))
        excess -= dropped_count - 1
    lines: list[Text] = []
    for index, part in enumerate(parts):
        if index and excess <= 0:
            lines.append(Text())
        lines += part
    return lines[:height]


def _head(seen: ScreenState, width: int) -> list[Text]:
    phases = {program.phase for program in seen.programs}
    title = Text("Penstock", style="bold")
    if phases & _ENDING:
        state, hint = "stops", "Ctrl-C again kills"
    elif phases <= {ProgramPhase.RUNNING}:
        state, hint = "runs", "Ctrl-C stops"
    elif any(program.restarts or program.phase is ProgramPhase.DEAD for program in seen.programs):
        state, hint = "runs in part", "Ctrl-C stops"
    else:
        state, hint = "starts", "Ctrl-C stops"
    title.append(f" {state}", style="not bold")
    title.append(" " * max(2, width - title.cell_len - len(hint)))
    title.append(hint, style="dim not bold")
    title.truncate(width)
    return [title]


def _programs(seen: ScreenState, width: int) -> list[Text]:
    """A line for each program, and below a dead one the end of its log."""
    rows = table(
        [
            Column("", [_name(entry, seen.status) for entry in seen.programs], 0),
            Column("", [Text(entry.address) for entry in seen.programs], 2),
            Column("", [_phase(entry, seen.now) for entry in seen.programs], 1),
            Column("", [_restarts(entry) for entry in seen.programs], 3),
        ],
        width,
    )
    name_width = max((len(entry.name) for entry in seen.programs), default=0)
    lines: list[Text] = []
    for program, row in zip(seen.programs, rows, strict=True):
        if program.phase is not ProgramPhase.DEAD:
            lines.append(row)
            continue
        # What it died of takes the place of what it has while it runs.
        retry_time = pause(program.retry_at - seen.now)
        dead_line = _name(program, seen.status) + Text(" " * (2 + name_width - len(program.name)))
        dead_line.append(f"{shown(program.ended)}, again in {retry_time}", style="red")
        dead_line.truncate(width, overflow="ellipsis")
        lines.append(dead_line)
        last_lines = program.last_lines[-_LAST_LINES:]
        lines += [_cut(f"    {shown(line)}", width, "dim") for line in last_lines]
    return lines


def _name(program: ProgramStatus, status: PipelineStatus | None) -> Text:
    sign, colour = _SIGNS[program.phase]
    loads_fail = program.name == "loader" and status is not None and status.failing_loads
    if loads_fail and program.phase is ProgramPhase.RUNNING:
        sign, colour = NOT_LOADED.mark, NOT_LOADED.colour
    return Text.assemble((sign, colour), f" {program.name}")


def _phase(program: ProgramStatus, now: float) -> Text:
    age = duration(max(0.0, now - program.since))
    match program.phase:
        case ProgramPhase.RUNNING:
            return Text(age, style="dim")
        case ProgramPhase.STARTING:
            return Text(f"starting, {age}")
        case ProgramPhase.DEAD:
            return Text()
        case _:
            return Text(program.phase.value, style="dim")


def _restarts(program: ProgramStatus) -> Text:
    if not program.restarts:
        return Text()
    times = "once" if program.restarts == 1 else f"{program.restarts:,} times"
    reason = f": {shown(program.ended)}" if program.ended else ""
    return Text(f"restarted {times}{reason}", style="yellow")


def _topics(seen: ScreenState, width: int) -> list[Text]:
    if seen.status is None:
        return []
    topics = seen.status.topics
    if not topics:
        is_idle = all_run(seen.programs) and seen.status.brokers
        return [_cut(_FOLLOWED if seen.follows else _HOW_TO_FOLLOW, width)] if is_idle else []

    def numbers(texts: Sequence[str]) -> list[Text]:
        return [Text(text) for text in texts]

    return table(
        [
            Column("topic", [Text(shown(topic.topic)) for topic in topics], 0),
            Column(
                "events/s",
                numbers([rate(seen.rates.of(topic.topic)) for topic in topics]),
                2,
                right=True,
            ),
            Column("events", numbers([count(topic.end) for topic in topics]), 4, right=True),
            Column("landed", numbers([count(topic.landed) for topic in topics]), 3, right=True),
            Column(
                "not read", numbers([size(topic.unread_bytes) for topic in topics]), 5, right=True
            ),
            Column("verdict", [_state(topic, seen.status.now) for topic in topics], 1),
        ],
        width,
    )


def _state(topic: TopicStatus, now: int) -> Text:
    words = topic_words(topic, now)
    return Text(f"{words.mark} {words.text}".lstrip(), style=words.colour)


def _sums(seen: ScreenState, width: int) -> list[Text]:
    """The verdict, and what stands in its way."""
    status = seen.status
    if status is None:
        return []
    lines: list[Text] = []
    has_audit = status.alerts >= 0  # which knows of loads, too
    # While programs start or stop, that they do not answer is no news.
    if status.topics and (has_audit or all_run(seen.programs)):
        words = verdict_words(status)
        lines = [Text.assemble((f"{words.mark} ", words.colour), words.text)]
        lines += _failing(status, width)
        if has_audit:
            lines.append(Text(f"  {_load(status, seen.loads)}"))
        for sentence in waiting_words(status)[:_REMARKS]:
            lines += _wrapped(sentence, width, "  ")
    elif status.failing_loads:
        lines = _failing(status, width)
    if all_run(seen.programs):
        for problem in status.problems[:_REMARKS]:
            lines += _marked("!", "yellow", shown(problem, 400), width)
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines


def _failing(status: PipelineStatus, width: int) -> list[Text]:
    """Failing loads, which come first, as waiting does not repair them."""
    lines: list[Text] = []
    sentences = failing_words(status)
    for mark, colour, text in sentences[: 2 * _REMARKS]:
        lines += _marked(mark, colour, text, width)
    return lines


def _marked(mark: str, colour: str, text: str, width: int) -> list[Text]:
    first_line, *other_lines = _wrapped(text, width - 2, "")
    return [
        Text.assemble((f"{mark} ", colour), first_line),
        *(Text("  ") + word for word in other_lines),
    ]


def _wrapped(text: str, width: int, indent: str) -> list[Text]:
    """The text on several lines, as half a sentence is of no use."""
    lines = textwrap.wrap(
        text,
        max(_NARROWEST, width),
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        max_lines=_MOST_LINES,
        placeholder=" …",
    )
    return [Text(line) for line in lines or [""]]


def _load(status: PipelineStatus, now: str) -> str:
    if now:
        return f"{load_words(status.last_load, status.now)}; now: {shown(now)}"
    is_first = status.last_load is None and not status.failing_loads
    note = " (the first load has to start Spark)" if is_first else ""
    return load_words(status.last_load, status.now) + note


def _places(seen: ScreenState, width: int) -> list[Text]:
    rows = {"dashboard": seen.dashboard}
    if seen.password is not None:
        rows["log in"] = f"as {ADMIN}, password in {_short(seen.password, seen.here)}"
    rows |= {
        "logs": _short(seen.directory / "logs", seen.here),
        "warehouse": _short(seen.directory / "warehouse", seen.here),
    }
    if seen.elsewhere:
        rows["commands"] = f". {shlex.quote(_short(seen.directory / 'environment', seen.here))}"
    return table(
        [
            Column("", [Text(row, style="dim") for row in rows], 0),
            Column("", [Text(shown(row)) for row in rows.values()], 0),
        ],
        width,
    )


def _short(path: Path, here: Path) -> str:
    """The path relative to the working directory, if it is below it."""
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)


def _cut(text: str, width: int, style: str = "") -> Text:
    cut_text = Text(text, style=style, no_wrap=True)
    cut_text.truncate(width, overflow="ellipsis")
    return cut_text
