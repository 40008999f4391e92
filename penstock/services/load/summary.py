"""The result of a load: a table for people, a document for programs."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ground.printable import one_line
from loader.checks.comparison import FileFaultKind
from loader.checks.statements import printable
from loader.commit.layout import SUCCESS
from loader.config import LoaderConfig
from loader.errors import reason_of
from loader.run.outcomes import PartitionRange, TableOutcome, has_failed, worst_exit_code
from loader.values.tables import Hour, hour_folder
from penstock.cli.output import Row, print_table

_COLUMNS: Final = (
    *("table", "rows", "bytes", "files", "late", "duplicates", "dead"),
    *("offsets", "hours_complete", "seconds"),
)
_COMPACTED: Final = ("table", "hour", "files", "new_files", "bytes", "new_bytes")
_MOST_PARTITIONS: Final = 3  # that are written out
_MOST_FAULTS: Final = 20  # of a table, that are shown
_MOST_HOURS: Final = 48  # rebuilt ones that are shown

NOTHING_TO_DO: Final = 3
INTERRUPTED: Final = 130


class EndedLoad(msgspec.Struct, frozen=True):
    """A load that has ended. `error` is the reason if it failed before any table was begun."""

    outcomes: tuple[TableOutcome, ...]
    seconds: float
    interrupted: bool = False
    error: Exception | None = None

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return INTERRUPTED
        if self.error is not None:
            return int(getattr(self.error, "exit_code", 1))
        return worst_exit_code(self.outcomes)


def show(outcomes: Sequence[TableOutcome]) -> None:
    """Prints a line for each table that was loaded or failed."""
    shown_outcomes = [outcome for outcome in outcomes if not outcome.did_nothing]
    if shown_outcomes:
        print_table(_COLUMNS, [_row(outcome) for outcome in shown_outcomes])
    else:
        print("nothing to do")
    faults = [
        {
            "table": outcome.table,
            "fault": fault.fault.value,
            "file": printable(fault.path),
            "committed_rows": _known(fault.committed_rows),
            "found_rows": _known(fault.found_rows),
        }
        for outcome in shown_outcomes
        for fault in outcome.faults[:_MOST_FAULTS]
    ]
    if faults:
        print()
        print_table(("table", "fault", "file", "committed_rows", "found_rows"), faults)
    rebuilt_hours = [(outcome, hour) for outcome in shown_outcomes for hour in outcome.rebuilt]
    if rebuilt_hours:
        print()
    for outcome, hour in rebuilt_hours[:_MOST_HOURS]:
        print(_rebuilt(outcome, hour))
    if len(rebuilt_hours) > _MOST_HOURS:
        print(f"and {len(rebuilt_hours) - _MOST_HOURS:,} more hours: see them with --json")
    for outcome in shown_outcomes:
        if outcome.upgraded:
            print(
                f"{outcome.table}: {len(outcome.upgraded):,} hours have the table's columns now"
                f" ({outcome.upgraded_files:,} files were rewritten)"
            )
        if outcome.waiting:
            print(f"  what to do: `{outcome.next_load}` closes hours once nothing is missing")
        if outcome.other_damage:
            print(
                f"{outcome.table}: other hours are still damaged: {one_line(outcome.other_damage)}"
            )
            print(f"  what to do: {one_line(outcome.other_cure)}")
    _show_failures(shown_outcomes)


def _show_failures(outcomes: Sequence[TableOutcome]) -> None:
    failures = [(outcome, outcome.error) for outcome in outcomes if outcome.error is not None]
    if failures:
        print()
    for outcome, error in failures:
        table = outcome.table if not has_failed(outcome) else f"{outcome.table} failed"
        print(f"{table}: {one_line(reason_of(error))}")
        print(f"  what to do: {one_line(outcome.cure)}")


def _rebuilt(outcome: TableOutcome, hour: Hour) -> str:
    """The state of a rebuilt hour."""
    folder, rows = f"{outcome.table}/{hour_folder(hour)}", f"{outcome.rebuilt[hour]:,} rows"
    faults = [fault for fault in outcome.faults if f"{fault.path}/".startswith(f"{folder}/")]
    if faults:
        extra = all(fault.fault is FileFaultKind.EXTRA for fault in faults)
        finding = "files that no run wrote are still there" if extra else "files are still wrong"
        return f"{folder}: rebuilt, {rows}, but {finding}"
    if waiting_reports := outcome.waiting.get(hour):
        return f"{folder}: rebuilt, {rows}; {SUCCESS} waits for {waiting_reports}"
    return f"{folder}: complete again, {rows}, {SUCCESS} written"


def show_plan(outcomes: Sequence[TableOutcome]) -> None:
    """Prints the ranges that a load would read."""
    rows = [
        {
            "table": outcome.table,
            "topic": partition_range.topic,
            "partition": partition_range.partition,
            "from": partition_range.from_offset,
            "to": partition_range.to_offset,
            "records": partition_range.to_offset - partition_range.from_offset,
        }
        for outcome in outcomes
        for partition_range in outcome.ranges
    ]
    if rows:
        print_table(("table", "topic", "partition", "from", "to", "records"), rows)
    else:
        print("nothing to read")


def show_compacted(outcomes: Sequence[TableOutcome], *, dry_run: bool) -> None:
    """Prints a line for each hour whose files were, or would be, joined."""
    rows = [
        {
            "table": outcome.table,
            "hour": hour_folder(part.hour),
            "files": part.files,
            "new_files": part.new_files,
            "bytes": part.bytes,
            "new_bytes": part.new_bytes,
        }
        for outcome in outcomes
        for part in outcome.compacted
    ]
    if rows:
        print_table(_COMPACTED[:-1] if dry_run else _COMPACTED, rows)
    elif not any(outcome.error for outcome in outcomes):
        print("nothing to do")
    for outcome in outcomes:
        if outcome.compacted:
            files = sum(part.files for part in outcome.compacted)
            new_files = sum(part.new_files for part in outcome.compacted)
            size = sum(part.bytes for part in outcome.compacted)
            verb = "would be" if dry_run else "were"
            print(
                f"{outcome.table}: {files:,} files ({size:,} bytes) of"
                f" {len(outcome.compacted):,} hours {verb} joined to {new_files:,}"
            )
    _show_failures(outcomes)


def document(ended: EndedLoad, config: LoaderConfig) -> Mapping[str, Any]:
    return {
        "exit_code": ended.exit_code,
        "seconds": round(ended.seconds, 3),
        "root": config.root,
        "brokers": config.brokers,
        "error": _text(ended.error),
        "tables": [_table(outcome) for outcome in ended.outcomes],
    }


def _row(outcome: TableOutcome) -> Row:
    return {
        "table": outcome.table,
        "rows": outcome.rows,
        "bytes": outcome.bytes,
        "files": outcome.files,
        "late": outcome.late,
        "duplicates": outcome.duplicates,
        "dead": outcome.dead,
        "offsets": _offsets(outcome.ranges),
        "hours_complete": len(outcome.complete),
        "seconds": "failed" if has_failed(outcome) else f"{outcome.seconds:.1f}",
    }


def _offsets(ranges: Sequence[PartitionRange]) -> str | None:
    """Offsets by partition such as `0: 17-4711`; the last one is exclusive."""
    if not ranges:
        return None
    if len(ranges) > _MOST_PARTITIONS:
        records = sum(
            partition_range.to_offset - partition_range.from_offset for partition_range in ranges
        )
        return f"{records} in {len(ranges)} partitions"
    topics = {partition_range.topic for partition_range in ranges}
    return ", ".join(
        f"{f'{partition_range.topic}-' if len(topics) > 1 else ''}{partition_range.partition}: "
        f"{partition_range.from_offset}-{partition_range.to_offset}"
        for partition_range in ranges
    )


def _table(outcome: TableOutcome) -> Mapping[str, Any]:
    return {
        "table": outcome.table,
        "run": outcome.run,
        "rolled_forward": outcome.rolled_forward,
        "ranges": [
            {
                "topic": partition_range.topic,
                "partition": partition_range.partition,
                "from": partition_range.from_offset,
                "to": partition_range.to_offset,
            }
            for partition_range in outcome.ranges
        ],
        "records": outcome.records,
        "rows": outcome.rows,
        "bytes": outcome.bytes,
        "files": outcome.files,
        "late": outcome.late,
        "duplicates": outcome.duplicates,
        "dead": outcome.dead,
        "complete": [hour_folder(hour) for hour in outcome.complete],
        "incomplete": [hour_folder(hour) for hour in outcome.incomplete],
        "rebuilt": [
            {
                "hour": hour_folder(hour),
                "rows": rows,
                "waiting": outcome.waiting.get(hour),
            }
            for hour, rows in outcome.rebuilt.items()
        ],
        "certified": [hour_folder(hour) for hour in outcome.certified],
        "uncertified": {hour_folder(hour): why for hour, why in outcome.uncertified.items()},
        "merged_files": outcome.merged_files,
        "compacted": [
            {
                "hour": hour_folder(part.hour),
                "files": part.files,
                "new_files": part.new_files,
                "bytes": part.bytes,
                "new_bytes": part.new_bytes,
            }
            for part in outcome.compacted
        ],
        "upgraded": [hour_folder(hour) for hour in outcome.upgraded],
        "upgraded_files": outcome.upgraded_files,
        "checked": [hour_folder(hour) for hour in outcome.checked],
        "faults": [
            {
                "path": printable(fault.path),
                "fault": fault.fault.value,
                "committed_rows": fault.committed_rows,
                "found_rows": fault.found_rows,
            }
            for fault in outcome.faults
        ],
        "other_damage": outcome.other_damage or None,
        "other_cure": outcome.other_cure or None,
        "warnings": outcome.warnings,
        "seconds": round(outcome.seconds, 3),
        "error": _text(outcome.error),
        "cure": outcome.cure or None,
    }


def _known(rows: int) -> int | None:
    return rows if rows >= 0 else None


def _text(error: Exception | None) -> str | None:
    return None if error is None else str(error)
