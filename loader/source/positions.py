"""Where reading begins or ends, as options say it: in words, by offsets, or by a time.

Offsets are written as for Spark's Kafka source: `{"orders": {"0": 5, "1": -2}}`, where -2 is the
earliest and -1 the latest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

EARLIEST: Final = -2
LATEST: Final = -1


@dataclass(frozen=True, slots=True)
class Earliest:
    pass


@dataclass(frozen=True, slots=True)
class Latest:
    pass


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """By topic and partition; each may be EARLIEST or LATEST."""

    offsets: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class AtTime:
    """At the first record of this time or later, in milliseconds; at the end if there is none."""

    millis: int


Position = Earliest | Latest | AtOffsets | AtTime


def position(text: str) -> Position:
    """`earliest`, `latest`, or offsets. ValueError if it is none of these."""
    match text.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    try:
        offsets = msgspec.json.decode(text, type=dict[str, dict[int, int]])
    except msgspec.MsgspecError:
        raise ValueError(
            'neither earliest, nor latest, nor offsets such as {"orders": {"0": 5, "1": -2}}'
        ) from None
    for topic, partitions in offsets.items():
        for partition, offset in partitions.items():
            if partition < 0 or offset < EARLIEST:
                raise ValueError(f"{topic}: partition {partition} at {offset} cannot be")
    return AtOffsets(offsets)


def millis(text: str) -> int:
    """A time in milliseconds since 1970, or as ISO 8601 has it; in UTC if it names no zone."""
    text = text.strip()
    if text.removeprefix("-").isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "neither milliseconds since 1970 nor a time such as 2026-11-20T07:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
