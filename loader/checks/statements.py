"""States the findings of a check as ledger entries (docs/ledger-entries.md, `Checked`). Pure.

The latest comparison of an hour counts, so an hour is reported in one entry, whatever its faults:
if there are very many, only the first are named, and the rest are reported as sums.

A file whose rows cannot be attributed to one of a table's topics is reported as a fault of each
topic, with an unknown number of rows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from ground.printable import one_line
from loader.checks.comparison import UNKNOWN, FaultyFile, FileFaultKind, HourOutcome
from loader.values.tables import HOUR_MILLIS

Json = dict[str, Any]

MOST_FAULTS: Final = 500  # faults of an hour that are named
_LONGEST_PATH: Final = 400
_CHECKED, _FAULT = 40, 20  # approximate sizes in bytes


def statements(outcome: HourOutcome, topics: Sequence[str]) -> list[Json]:
    """One statement for each topic of the table."""
    return [
        {
            "topic": topic,
            "from_time": outcome.hour,
            "to_time": outcome.hour + HOUR_MILLIS,
            "files": outcome.files,
            "rows": outcome.rows,
            "faults": [
                {
                    "path": printable(fault.path),
                    "hour": outcome.hour,
                    "fault": fault.fault.value,
                    "committed_rows": fault.committed_rows,
                    "found_rows": fault.found_rows,
                }
                for fault in _named(outcome, list(_of_topic(outcome.faults, topic, topics)))
            ],
        }
        for topic in topics
    ]


def digest(statements_: Sequence[Json]) -> str:
    """A digest of the statements: equal statements have equal digests."""
    return blake2b(msgspec.json.encode(statements_), digest_size=12).hexdigest()


def weight(statement: Mapping[str, Any]) -> int:
    """The approximate size of a statement in an entry, in bytes."""
    return _CHECKED + sum(_FAULT + len(fault["path"]) for fault in statement["faults"])


def printable(path: str) -> str:
    """A path, which may have any characters, as text that can be printed and sent."""
    printable_path = one_line(path)
    return (
        printable_path
        if len(printable_path) <= _LONGEST_PATH
        else f"{printable_path[:_LONGEST_PATH]}…"
    )


def _of_topic(
    faults: Iterable[FaultyFile], topic: str, topics: Sequence[str]
) -> Iterator[FaultyFile]:
    for fault in faults:
        if len(topics) == 1 or fault.topic == topic:
            yield fault
        elif fault.topic not in topics:
            yield fault._replace(
                committed_rows=0 if fault.fault is FileFaultKind.EXTRA else UNKNOWN,
                found_rows=0 if fault.fault is FileFaultKind.MISSING else UNKNOWN,
            )


def _named(outcome: HourOutcome, faults: Sequence[FaultyFile]) -> Iterator[FaultyFile]:
    """The faults that are named, and sums of the rest by kind of fault."""
    yield from faults[:MOST_FAULTS]
    remaining_files: dict[FileFaultKind, list[FaultyFile]] = defaultdict(list)
    for file in faults[MOST_FAULTS:]:
        remaining_files[file.fault].append(file)
    for fault, files in remaining_files.items():
        yield FaultyFile(
            f"{outcome.folder} ({len(files):,} more files)",
            fault,
            _sum(file.committed_rows for file in files),
            _sum(file.found_rows for file in files),
        )


def _sum(counts: Iterable[int]) -> int:
    known_counts = list(counts)
    return UNKNOWN if UNKNOWN in known_counts else sum(known_counts)
