"""Entries of the ledger for tests: what is not given is as its schema has it by default."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from ledger.columns import LEDGER_TYPE, columns_of

MINUTE: Final = 60_000
HOUR: Final = 3_600_000
BEGIN: Final = 1_760_000_400_000
CLUSTER: Final = "local"
TOPIC: Final = "clicks"
TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
ROOT: Final = "hdfs://logs"

Json = dict[str, Any]

_UNKNOWN: Final = {
    *("run", "position", "end_position", "lines", "leader_epoch", "lag_bytes"),
    *("forgotten_before", "resumes"),
}
_HEADER: Final = {"position": 0}


def body(entries: Sequence[Json]) -> pa.StructArray:
    return columns_of([_whole(LEDGER_TYPE, each) for each in entries])


def entry(tier: str, journal: str, seq: int, time: int, **lists: Any) -> Json:
    header = {"time": time, "host": f"host-of-{journal}", "source": journal, "seq": seq}
    return {
        "header": header | _HEADER,
        "version": 1,
        "tier": tier,
        "cluster": CLUSTER,
        "window_millis": MINUTE,
        **lists,
    }


def passage(partition: int, first: int, count: int, windows: Sequence[Json], **more: Any) -> Json:
    return {
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "partition": partition,
        "offsets": [{"first": first, "count": count}] if count else [],
        "windows": list(windows),
        **more,
    }


def window(start: int, events: int, **more: Any) -> Json:
    return {"start": start, "events": events, "bytes": events * 10, "crc_sum": events * 7, **more}


def run(source: str, seq: int, events: int, **more: Any) -> Json:
    return {"source": source, "seq": seq, "events": events, **more}


def excepted(fate: str, count: int, size: int = 0, reason: str = "") -> Json:
    return {"fate": fate, "count": count, "bytes": size, "reason": reason}


def _whole(type_: pa.DataType, value: Any, name: str = "") -> Any:
    if pa.types.is_struct(type_):
        if value is None:
            return None
        given: Mapping[str, Any] = value
        assert set(given) <= {field.name for field in type_}, (set(given), type_)
        return {
            field.name: _whole(field.type, given.get(field.name), field.name) for field in type_
        }
    if pa.types.is_list(type_):
        return [_whole(type_.value_type, each) for each in value or ()]
    if value is not None:
        return value
    if pa.types.is_string(type_):
        return ""
    if pa.types.is_binary(type_):
        return b""
    if pa.types.is_boolean(type_):
        return False
    return None if name in {"from_time", "to_time"} else -1 if name in _UNKNOWN else 0
