"""What `penstock verify` prints: for people in sentences, for programs as JSON. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ground.printable import one_line
from penstock.cli.output import Row
from penstock.cli.time_arguments import time_text
from penstock.verify.faults import Verdict
from penstock.verify.hours import CheckedHour
from penstock.verify.tables import CheckedTable

_MARKS: Final = {Verdict.WHOLE: "✓", Verdict.NOT_COMPLETE: "…", Verdict.NOT_CERTIFIED: "?"}
_FEW: Final = 3  # agents that are named
_MOST_AGENTS: Final = 1_000  # in a document
_FAULTY: Final = "✗"
_UNIT: Final = 1000
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")


class Line(msgspec.Struct, frozen=True):
    """A line of text, and the verdict that colours it."""

    text: str
    verdict: Verdict | None = None


def hour_line(hour: CheckedHour) -> Line:
    """Returns the line of `--all` for one hour."""
    if hour.is_whole and hour.link is not None:
        words = f"{_count(hour.rows, 'row')}, {_count(hour.files, 'file')}"
        text = f"{hour.folder.path}: certificate {hour.link.number}, {words}"
        return Line(f"{_MARKS[Verdict.WHOLE]} {text}", Verdict.WHOLE)
    words = "; ".join(f"{fault.kind.title}: {fault.path}" for fault in hour.faults)
    verdict = Verdict.ALTERED if hour.faults else Verdict.NOT_COMPLETE
    mark = _FAULTY if hour.faults else _MARKS[Verdict.NOT_COMPLETE]
    return Line(f"{mark} {hour.folder.path}: {words or hour.state.value}", verdict)


def table_lines(table: CheckedTable) -> Iterator[Line]:
    """Returns the summary of a table, and the first fault of each kind."""
    verdict = table.faults.verdict
    mark = _MARKS.get(verdict, _FAULTY)
    contents = (
        f"{_count(table.rows, 'row')} in {_count(table.files, 'file')} ({_size(table.bytes)})"
    )
    span = f"from {time_text(table.first)} to {time_text(table.end)} UTC"
    signers = " and ".join(sorted(table.signers))
    if verdict is Verdict.WHOLE:
        are = "is" if table.whole_hours == 1 else "are"
        text = f"{_count(table.whole_hours, 'hour')} of {table.table}, {span}, {are} whole"
        signed = f", signed by {signers}" if signers else ""
        yield Line(f"{mark} {text}: {contents}{signed}.", verdict)
    else:
        whole = f"{_count(table.whole_hours, 'whole hour')} {span}" if table.end else "no hours"
        yield Line(f"{mark} {table.table} is {verdict.words}: {whole}, {contents}.", verdict)
    for kind in table.faults.kinds:
        fault = table.faults.of(kind)[0]
        more = table.faults.counts[kind] - 1
        others = f" (and {more:,} more)" if more else ""
        yield Line(f"  {kind.title}: {fault.path} {fault.words}{others}.", kind.verdict)
        yield Line(f"    {kind.advice}")
    for note in _notes(table):
        yield Line(f"  {note}.")


def document(
    tables: Sequence[CheckedTable], hours: Sequence[CheckedHour] | None, verdict: Verdict
) -> Row:
    """Returns the document of `--json`."""
    content: dict[str, Any] = {
        "verdict": verdict.words,
        "exit_code": int(verdict),
        "tables": [_table(table) for table in tables],
    }
    if hours is not None:
        content["hours"] = [_hour(hour) for hour in hours]
    return content


def _notes(table: CheckedTable) -> Iterator[str]:
    if table.hours_without_rows:
        unsigned = table.unsigned_hours_without_rows
        only = f", {unsigned:,} of them by an unsigned statement" if unsigned else ""
        yield f"{_count(table.hours_without_rows, 'more hour')} had no rows{only}"
    if table.uncertified_hours:
        yield f"{_count(table.uncertified_hours, 'complete hour')} without a certificate"
    if table.open_hours:
        yield f"{_count(table.open_hours, 'later hour')} not yet complete"
    if table.missing_certificates:
        yield f"{_count(table.missing_certificates, 'certificate')} of the chain not in place"
    if table.hours_without_heads:
        name = "names" if table.hours_without_heads == 1 else "name"
        yield f"{_count(table.hours_without_heads, 'certificate')} {name} no signed heads of agents"
    if agents := list(table.agents_without_head):
        more = f" and {len(agents) - _FEW:,} more" if len(agents) > _FEW else ""
        yield f"No signed head of {', '.join(agents[:_FEW])}{more}"
    if not table.has_counted_rows:
        yield "The rows of some files were not counted: only Parquet and ORC have their number"


def _table(table: CheckedTable) -> Row:
    return {
        "table": one_line(table.table),
        "verdict": table.faults.verdict.words,
        "first_hour": _hour_text(table.first) if table.end else None,
        "end": _hour_text(table.end) if table.end else None,
        "whole_hours": table.whole_hours,
        "uncertified_hours": table.uncertified_hours,
        "open_hours": table.open_hours,
        "hours_without_rows": table.hours_without_rows,
        "unsigned_hours_without_rows": table.unsigned_hours_without_rows,
        "missing_certificates": table.missing_certificates,
        "rows": table.rows,
        "rows_counted": table.has_counted_rows,
        "files": table.files,
        "bytes": table.bytes,
        "hours_without_heads": table.hours_without_heads,
        "agents_without_head": [
            one_line(agent) for agent in list(table.agents_without_head)[:_MOST_AGENTS]
        ],
        "signers": [one_line(file) for file in sorted(table.signers)],
        "newest": None if table.newest is None else msgspec.to_builtins(table.newest),
        "faults": [
            {
                "kind": kind.title,
                "verdict": kind.verdict.words,
                "count": table.faults.counts[kind],
                "first": [
                    {"path": one_line(fault.path), "words": one_line(fault.words)}
                    for fault in table.faults.of(kind)
                ],
                "advice": kind.advice,
            }
            for kind in table.faults.kinds
        ],
    }


def _hour(hour: CheckedHour) -> Row:
    return {
        "table": one_line(hour.folder.table),
        "hour": hour.folder.name,
        "state": hour.state.value,
        "whole": hour.is_whole,
        "number": None if hour.link is None else hour.link.number,
        "rows": hour.rows,
        "files": hour.files,
        "bytes": hour.bytes,
        "faults": [
            {"kind": fault.kind.title, "path": one_line(fault.path), "words": one_line(fault.words)}
            for fault in hour.faults
        ],
    }


def _hour_text(millis: int) -> str:
    return f"{time_text(millis).replace(' ', 'T')}Z"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _size(count: int) -> str:
    value, step = float(count), 0
    while value >= _UNIT and step < len(_UNITS) - 1:
        value, step = value / _UNIT, step + 1
    return f"{count:,} bytes" if step == 0 else f"{value:,.1f} {_UNITS[step]}"
