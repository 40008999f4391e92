"""Entries as columns are what Avro's schema resolution makes of the same bytes."""

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from client.reading.fetcher import FetchedBatch
from ledger.columns import LEDGER_TYPE, ColumnsOfLedger
from ledger.entries import LedgerEntries
from schemas.envelope import Decoder, Encoder
from schemas.event_schemas import LEDGER, built_in
from schemas.parsing import AvroSchema, parse
from tests.schemas.events import EVENTS
from wire.record_batches.batch import read_header
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch

OURS = built_in(LEDGER)


def changed(remove: frozenset[str] = frozenset(), grow: bool = False) -> AvroSchema:
    """Our schema without fields of these names that have a default; with more everywhere."""

    def walk(each: Any) -> None:
        if isinstance(each, list):
            for one in each:
                walk(one)
        elif isinstance(each, dict):
            for key in ("type", "items", "fields"):
                walk(each.get(key))
            if isinstance(each.get("fields"), list):
                kept = [f for f in each["fields"] if f["name"] not in remove or "default" not in f]
                added = [{"name": "more", "type": "long", "default": 7}] if grow else []
                each["fields"] = [*added, *kept] if each["name"] != "Ledger" else [*kept, *added]
            if grow and "symbols" in each:
                each["symbols"].append("new")

    text = json.loads(OURS.text)
    walk(text)
    return parse(json.dumps(text))


def batches(schema: AvroSchema, entries: list[Any]) -> list[FetchedBatch]:
    """Each in one of its own, and enough for them to be read together."""
    encoder = Encoder(schema, 7)
    found = []
    for each in entries:
        data = build_batch([Record(0, 0, None, encoder.encode(each))], codec=Codec.ZSTD)
        found.append(FetchedBatch(0, read_header(data), memoryview(data)))
    return found


def read_together(schema: AvroSchema, written: list[FetchedBatch]) -> list[Any]:
    assert ColumnsOfLedger.of(schema, 7) is not None
    entries = LedgerEntries({7: schema}.get)
    for batch in written:
        entries.add(batch)
    body = entries.take().body
    assert (body.type, entries.left_out) == (LEDGER_TYPE, 0)
    return body.to_pylist()  # type: ignore[no-any-return]


def by_avro(schema: AvroSchema, entries: list[Any]) -> list[Any]:
    encoder, decoder = Encoder(schema, 7), Decoder(lambda _: schema, OURS)
    return [decoder.decode(encoder.encode(each)) for each in entries]


def as_written(schema: AvroSchema, entry: Any) -> Any:
    """The entry with the fields of that schema."""
    return Decoder(lambda _: OURS, schema).decode(Encoder(OURS, 7).encode(entry))


def with_all_statements() -> dict[str, Any]:
    full: dict[str, Any] = copy.deepcopy(EVENTS["Ledger"])
    fault = {"path": "a", "hour": 0, "fault": "extra", "committed_rows": 0, "found_rows": 3}
    hour = {"topic": "x", "from_time": 0, "to_time": 3_600_000, "files": 1, "rows": 2}
    full["checked"] = [hour | {"faults": [fault]}]
    offsets = {"first": 2, "count": 3}
    full["damaged"] = [{"topic": "x", "partition": 1, "offsets": offsets, "reason": "why"}]
    return full


# With a default, and without a definition that others name.
REMOVABLE = frozenset(
    {
        *("accepted", "checked", "damaged", "delays", "destination", "finished", "from_time"),
        *("heartbeats", "host", "late", "leader_epoch", "lines", "no_events", "operator"),
        *("origin", "program_version", "reason", "run", "topics", "window_millis"),
    }
)


@settings(max_examples=25)
@given(st.frozensets(st.sampled_from(sorted(REMOVABLE))), st.booleans(), st.booleans())
@example(
    names=frozenset({"checked", "damaged"}), grow=False, strange=False
)  # before there was an audit
@example(names=frozenset(), grow=True, strange=True)
@example(names=REMOVABLE, grow=False, strange=False)
def test_as_avro_resolves_it(names: frozenset[str], grow: bool, strange: bool) -> None:
    """Earlier and later versions: fields that are missing or strange, symbols that are."""
    schema = changed(names, grow)
    full = with_all_statements()
    plain = {key: full[key] for key in ("header", "version", "tier", "cluster")}
    entries = [as_written(schema, each) for each in (full, plain)] * 12
    if strange and grow:
        entries[0]["tier"] = entries[0]["passages"][0]["runs"][0]["excepted"][0]["fate"] = "new"
    assert read_together(schema, batches(schema, entries)) == by_avro(schema, entries)


CLUSTER = '{"name":"cluster","type":"string"'
STRING_OR_LONG = '{"name":"cluster","type":["string","long"]'


@pytest.mark.parametrize(
    ("part", "instead", "more"),
    [
        ('{"name":"run","type":"long"', '{"name":"run","type":"int"', {}),
        (CLUSTER, STRING_OR_LONG, {}),
        ('{"name":"run"', '{"name":"raw","type":"bytes"},{"name":"run"', {"raw": b"\xff"}),
    ],
    ids=["an int is a long", "a union is the one type that is wanted", "bytes are not in the way"],
)
def test_other_types_are_read_together(part: str, instead: str, more: dict[str, Any]) -> None:
    schema = parse(OURS.text.replace(part, instead, 1))
    assert schema != OURS
    entries = [with_all_statements() | more] * 20
    assert read_together(schema, batches(schema, entries)) == by_avro(schema, entries)


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        (CLUSTER, '{"name":"cluster","type":"double"'),
        (CLUSTER, '{"name":"cluster","type":["null","string"]'),
        ('{"name":"cluster"', '{"name":"klaster"'),
    ],
)
def test_what_does_not_fit_in_any_entry_is_not_read_together(part: str, instead: str) -> None:
    text = OURS.text.replace(part, instead, 1)
    assert text != OURS.text
    assert ColumnsOfLedger.of(parse(text), 7) is None


def test_one_entry_that_does_not_fit_costs_no_other() -> None:
    schema = parse(OURS.text.replace(CLUSTER, STRING_OR_LONG, 1))
    entries = [with_all_statements()] * 40
    read = LedgerEntries({7: schema}.get)
    for batch in batches(schema, [*entries[:20], {**entries[0], "cluster": 5}, *entries[20:]]):
        read.add(batch)
    assert read.take().body.to_pylist() == by_avro(schema, entries)
    assert read.left_out == 1
