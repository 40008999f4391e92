"""What a check has found, in the words of the ledger (docs/events.md, `Checked`). Pure.

The latest comparison of an hour counts, so an hour is said in one piece, whatever is wrong with it:
of very many faults only the first have a name, and those behind them are said together.

A file of which nobody knows from which of a table's topics its rows are is a fault of each of them,
of rows that nobody knows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from ground.printable import one_line
from loader.checks.comparison import UNKNOWN, FaultyFile, FileFaultKind, HourOutcome
from loader.tables import HOUR_MILLIS

Json = dict[str, Any]

MOST_FAULTS: Final = 500  # of an hour, with a name
_LONGEST_PATH: Final = 400
_CHECKED, _FAULT = 40, 20  # bytes that they take, about


def statements(outcome: HourOutcome, topics: Sequence[str]) -> list[Json]:
    """One for each topic of the table."""
    return [
        {
            "topic": topic,
            "from_time": outcome.hour,
            "to_time": outcome.hour + HOUR_MILLIS,
            "files": outcome.files,
            "rows": outcome.rows,
            "faults": [
                {
                    "path": printable(each.path),
                    "hour": outcome.hour,
                    "fault": each.fault.value,
                    "committed_rows": each.committed_rows,
                    "found_rows": each.found_rows,
                }
                for each in _named(outcome, list(_of_topic(outcome.faults, topic, topics)))
            ],
        }
        for topic in topics
    ]


def digest(said: Sequence[Json]) -> str:
    """The same as long as the same is to be said."""
    return blake2b(msgspec.json.encode(said), digest_size=12).hexdigest()


def weight(said: Mapping[str, Any]) -> int:
    """Bytes that it takes in an entry, about."""
    return _CHECKED + sum(_FAULT + len(fault["path"]) for fault in said["faults"])


def printable(path: str) -> str:
    """A name that anybody may have given, as text that can be shown and sent."""
    shown = one_line(path)
    return shown if len(shown) <= _LONGEST_PATH else f"{shown[:_LONGEST_PATH]}…"


def _of_topic(
    faults: Iterable[FaultyFile], topic: str, topics: Sequence[str]
) -> Iterator[FaultyFile]:
    for each in faults:
        if len(topics) == 1 or each.topic == topic:
            yield each
        elif each.topic not in topics:
            yield each._replace(
                committed_rows=0 if each.fault is FileFaultKind.EXTRA else UNKNOWN,
                found_rows=0 if each.fault is FileFaultKind.MISSING else UNKNOWN,
            )


def _named(outcome: HourOutcome, faults: Sequence[FaultyFile]) -> Iterator[FaultyFile]:
    """As many as have a name, and the rest by what is wrong with them."""
    yield from faults[:MOST_FAULTS]
    rest: dict[FileFaultKind, list[FaultyFile]] = defaultdict(list)
    for each in faults[MOST_FAULTS:]:
        rest[each.fault].append(each)
    for fault, those in rest.items():
        yield FaultyFile(
            f"{outcome.folder} ({len(those):,} more files)",
            fault,
            _sum(each.committed_rows for each in those),
            _sum(each.found_rows for each in those),
        )


def _sum(counts: Iterable[int]) -> int:
    known = list(counts)
    return UNKNOWN if UNKNOWN in known else sum(known)
