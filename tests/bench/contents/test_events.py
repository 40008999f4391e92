"""Events to be loaded: their batches are whole, and say what an agent's would."""

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import pytest

from bench.contents.events import BATCH, BEGAN, SCHEMA, STEP_MILLIS, finished_batch
from wire.record_batches.batch import check_batch
from wire.record_batches.records import records

_ID = 70_000
_PARSED = fastavro.parse_schema(json.loads(SCHEMA))


def _events(data: bytes) -> list[Mapping[str, Any]]:
    """Decoded by somebody else, and checked on the way."""
    events: list[Mapping[str, Any]] = []
    check_batch(memoryview(data))
    for place, record in enumerate(records(data)):
        assert record.offset == place
        assert record.value is not None
        assert record.value[:5] == b"\0" + _ID.to_bytes(4, "big")
        body = io.BytesIO(record.value[5:])
        event = fastavro.schemaless_reader(body, _PARSED, None)
        assert not body.read()
        assert isinstance(event, dict)
        assert event["header"]["time"].timestamp() * 1000 == record.timestamp
        events.append(event)
    return events


def test_a_source_counts_its_events_and_ascends_in_time() -> None:
    headers = [event["header"] for event in _events(finished_batch(3, _ID, 7_000, 200))]
    assert [each["seq"] for each in headers] == list(range(7_000, 7_200))
    assert {each["source"] for each in headers} == {f"{3:032x}"}
    times = [round(each["time"].timestamp() * 1000) for each in headers]
    assert times == [BEGAN + seq * STEP_MILLIS for seq in range(7_000, 7_200)]


@pytest.mark.not_quick("very many events")
def test_an_event_takes_about_200_bytes_and_is_like_no_other() -> None:
    data = finished_batch(0, _ID, 0, BATCH)
    values = [record.value or b"" for record in records(data)]
    assert len(values) == BATCH
    assert sum(map(len, values)) / BATCH == pytest.approx(200, abs=3)
    urls = {event["url"] for event in _events(data)}
    assert len(urls) == BATCH
    others = {event["url"] for event in _events(finished_batch(1, _ID, 0, BATCH))}
    assert not urls & others
