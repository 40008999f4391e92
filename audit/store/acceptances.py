"""What operators have accepted, as judges need it."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from audit.folding.keyed import Keyed
from audit.picture import Acceptance, Interval, Intervals

_MOST_NUMBER: Final = 1 << 62
_NONE: Final = ((-1, -1),)  # covers nothing: what is empty stands for any


def accepted(connection: sqlite3.Connection, name: int, topic_id: str) -> list[Acceptance]:
    """Of the topics of that name those that this one is meant by."""
    rows = connection.execute(
        "SELECT statement, time FROM accepted WHERE name = ? AND topic_id IN ('', ?)"
        " ORDER BY journal, seq, number",
        (name, topic_id),
    )
    return [_acceptance(msgspec.json.decode(statement), time) for statement, time in rows]


def _acceptance(said: dict[str, Any], time: int) -> Acceptance:
    seqs: dict[str, list[Interval]] = defaultdict(list)
    sizes: dict[str, list[Interval]] = defaultdict(list)
    for run in said["runs"]:
        if run["events"] > 0:
            seqs[run["source"]].append((run["seq"], run["seq"] + run["events"]))
        else:
            sizes[run["source"]].append((run["position"], run["end_position"]))
    offsets = [(each["first"], each["first"] + each["count"]) for each in said["offsets"]]
    return Acceptance(
        said["partition"],
        _united(offsets) or (_NONE if offsets else ()),
        {source: _united(each) for source, each in seqs.items()},
        {source: _united(each) for source, each in sizes.items()},
        said["host"],
        said["from_time"],
        said["to_time"],
        said["reason"],
        said["operator"],
        time,
    )


def _united(intervals: Sequence[Interval]) -> Intervals:
    """As far as there can be such numbers: an operator may have written "to the end"."""
    within = [(max(0, first), min(end, _MOST_NUMBER)) for first, end in intervals]
    columns = np.array([each for each in within if each[0] < each[1]], np.int64).reshape(-1, 2)
    found = Keyed(np.zeros(len(columns), np.int64), columns[:, 0], columns[:, 1]).united()
    return tuple(zip(found.first.tolist(), found.end.tolist(), strict=True))
