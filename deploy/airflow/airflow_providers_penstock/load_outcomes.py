"""What a load's exit code and report mean for its task.

| exit code    | the task |
|---|---|
| 0            | succeeds |
| 3            | is skipped: there was nothing to do |
| 2, 4, 6, 8   | fails without retries: a person must decide, or correct the configuration |
| 126, 127     | fails without retries: the executable cannot be run |
| any other    | fails, and is retried as the DAG says |
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

from airflow_providers_penstock.hour_verdicts import one_line

_COUNTS: Final = ("rows", "bytes", "files", "late", "duplicates", "dead")
_MOST_TABLES: Final = 200  # in XCom, which is stored in Airflow's database
_MOST_HOURS: Final = 200  # of a table
_MOST_FAILURES: Final = 3  # that the error of a task names


class Outcome(Enum):
    SUCCESS = "success"
    NOTHING_TO_DO = "nothing to do"
    FAILURE = "failure"
    FINAL_FAILURE = "final failure"  # retries do not help


_OUTCOMES: Final = {
    0: Outcome.SUCCESS,
    3: Outcome.NOTHING_TO_DO,
    **dict.fromkeys((2, 4, 6, 8, 126, 127), Outcome.FINAL_FAILURE),
}


def outcome_of(exit_code: int) -> Outcome:
    return _OUTCOMES.get(exit_code, Outcome.FAILURE)


def report_in(output: bytes) -> dict[str, Any]:
    """Returns the report that a load has printed; empty if it printed none."""
    try:
        report = json.loads(output)
    except (ValueError, RecursionError):
        return {}
    return report if isinstance(report, dict) else {}


def tables_of(report: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the tables of a report for which anything was done."""
    for table in report.get("tables") or ():
        if any(table.get(key) for key in ("run", "error", "checked", "rolled_forward", "records")):
            yield table


def summary_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns counts for XCom: in all, and of the first tables."""
    tables = list(tables_of(report))
    return {
        "exit_code": report.get("exit_code"),
        "seconds": report.get("seconds"),
        **{key: sum(int(table.get(key) or 0) for table in tables) for key in _COUNTS},
        "tables_total": len(tables),
        "tables": {
            str(table.get("table")): {
                **{key: int(table.get(key) or 0) for key in _COUNTS},
                "run": table.get("run"),
                "complete": hours_of(table, "complete"),
                "incomplete": hours_of(table, "incomplete"),
            }
            for table in tables[:_MOST_TABLES]
        },
    }


def hours_of(table: Mapping[str, Any], key: str) -> list[str]:
    return [str(hour) for hour in (table.get(key) or ())[:_MOST_HOURS]]


def failure_words(exit_code: int, report: Mapping[str, Any], last_line: str) -> str:
    """What failed, and what to do, in one line."""
    failures = [
        f"{table.get('table')}: {table['error']}"
        + (f" (what to do: {table['cure']})" if table.get("cure") else "")
        for table in tables_of(report)
        if table.get("error")
    ]
    reasons = [str(report["error"])] if report.get("error") else failures
    words = "; ".join(map(one_line, reasons[:_MOST_FAILURES])) or one_line(last_line)
    if report.get("error") and "what to do: " in last_line:
        words += f" ({one_line(last_line).strip()})"
    if len(reasons) > _MOST_FAILURES:
        words += f"; and {len(reasons) - _MOST_FAILURES} more tables"
    return f"the load ended with exit code {exit_code}: {words}"
