"""Entries read together say what they say one by one, whatever else is in the log."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger.columns import ColumnsOfLedger, Frames, NotTogether
from loader.hours.ledger_entries import GATHERED_BYTES, LedgerEntries

from client.fetcher import Batch
from ledger.agents import Agents, AgentSaid, Beat, HostRetired
from schemas.event_schemas import LEDGER, LOG_LINE, built_in
from schemas.parsing import AvroSchema, parse
from tests.ledger.said import batch_of, entry, passage, retirement
from wire.batch import read_header
from wire.compression import Codec
from wire.records import Record, build_batch, records

SCHEMAS = {7: built_in(LEDGER), 8: built_in(LEDGER), 9: built_in(LOG_LINE)}


def folded(batches: Iterable[Batch], schemas: dict[int, AvroSchema]) -> tuple[Agents, int]:
    agents, entries = Agents(), LedgerEntries(schemas.get)
    for batch in batches:
        for said in entries.add(batch):
            agents.take(said)
    for said in entries.take():
        agents.take(said)
    return agents, entries.left_out


def one_by_one(batches: Iterable[Batch], schemas: dict[int, AvroSchema]) -> tuple[Agents, int]:
    """Each by itself: so few are never read together."""
    agents, left_out = Agents(), 0
    for batch in batches:
        entries = LedgerEntries(schemas.get)
        for said in [*entries.add(batch), *entries.take()]:
            agents.take(said)
        left_out += entries.left_out
    return agents, left_out


def together(batches: list[Batch], schema_id: int = 7) -> list[Any]:
    columns = ColumnsOfLedger.of(SCHEMAS[schema_id], schema_id)
    assert columns is not None
    gathered = [
        (each.header.producer_id, each.header.codec, each.header.record_count, bytes(each.data))
        for each in batches
    ]
    return columns.read(Frames.of(gathered)).said


def other(value: bytes) -> Batch:
    data = build_batch([Record(0, 0, None, value)])
    return Batch(0, read_header(data), memoryview(data))


beats = st.tuples(st.integers(0, 3), st.lists(st.sampled_from(["x", "y", "ž"]), max_size=2))
more = st.fixed_dictionaries(
    {},
    optional={
        "passages": st.lists(st.builds(passage, st.just("x"), st.integers(0, 3)), max_size=2),
        "tier": st.sampled_from(["agent", "broker", "hdfs"]),
        "version": st.sampled_from([1, 1, 1, 2]),
    },
)
entries = st.builds(
    lambda agent, beats, more: (agent, beats, more),
    st.sampled_from(["a", "b", "c"]),
    st.lists(beats, max_size=2),
    more,
)
kinds: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "codec": st.sampled_from([Codec.ZSTD, Codec.ZSTD, Codec.NONE, Codec.LZ4]),
        "schema_id": st.sampled_from([7, 7, 7, 8]),
        "key": st.sampled_from([None, None, None, b"k"]),
    }
)
odd = st.sampled_from([b"", b"\0\0\0\0\x07", b"\0\0\0\0\x63abc", b"\1" * 20]).map(other)


@settings(max_examples=60)
@given(st.data())
def test_together_as_one_by_one(data: st.DataObject) -> None:
    """Fewer than a few are read one by one: each log is long enough to be read together."""
    seqs: dict[str, int] = {}
    batches: list[Batch] = []
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(kinds)
        for agent, mine, extra in data.draw(st.lists(entries, min_size=4, max_size=20)):
            seqs[agent] = seqs.get(agent, -1) + 1
            producer = ord(agent) if data.draw(st.booleans()) else -1
            batches.append(
                batch_of([entry(agent, seqs[agent], *mine, **extra)], producer=producer, **kind)
            )
        if data.draw(st.integers(0, 3)) == 0:
            batches.append(data.draw(odd))
    assert folded(batches, SCHEMAS) == one_by_one(batches, SCHEMAS)


def test_only_what_counts_is_looked_at() -> None:
    """Of agents that name no topics the last entry, in a batch of several or in one of its own."""
    mine = [entry("a", seq, (seq + 1, [])) for seq in range(40)]
    yours = [entry("b", seq, (seq + 1, ["x"] if seq == 20 else [])) for seq in range(40)]
    batches = [batch_of(mine), *(batch_of([each]) for each in yours), batch_of([entry("c", 0)])]
    said = together(batches)
    assert said[0] == AgentSaid("a", "host-of-a", 39, 39 * 60_000, (Beat(40, frozenset()),))
    assert [each.seq for each in said[1:]] == [19, 20, 39]


def test_operators_are_listened_to_and_nobody_else_retires_hosts() -> None:
    statement = {"host": "h", "agent": "", "since": 5, "reason": ""}
    batches = [batch_of([retirement("h", 3, 4)]), batch_of([entry("a", 1, retired=[statement])])]
    assert together(batches) == [HostRetired("h", "", 3, 4)]
    assert folded(batches, SCHEMAS)[0] == folded(batches * 20, SCHEMAS)[0]


def test_what_is_not_as_it_is_expected_is_not_believed() -> None:
    good = batch_of([entry("a", 0, (1, ["x"]))])
    value = b"\0\0\0\0\x07" + b"\0" * 4
    for bad in (
        batch_of([entry("a", 0)], key=b"k"),
        batch_of([entry("a", 0)], schema_id=8),
        batch_of([entry("a", 0)], codec=Codec.GZIP),
        other(value),
        other(b""),
        with_header(b"\0" * 8),
    ):
        with pytest.raises(NotTogether):
            together([good, bad])


def with_header(content: bytes) -> Batch:
    (value,) = _values(batch_of([entry("a", 0, (1, ["x"]))]))
    data = build_batch([Record(0, 0, None, value, (("", content),))])
    return Batch(0, read_header(data), memoryview(data))


def test_bytes_that_follow_an_entry_are_noticed() -> None:
    value = bytearray(next(iter(_values(batch_of([entry("a", 0, (1, ["x"]))])))))
    batches = [other(bytes(value + b"\0"))] * 20
    assert folded(batches, SCHEMAS) == (Agents(), 20)


def _values(batch: Batch) -> list[bytes]:
    return [record.value or b"" for record in records(batch.data)]


def test_entries_of_later_versions_are_counted_not_read() -> None:
    batches = [batch_of([entry("a", seq, (1, ["x"]), version=2)]) for seq in range(40)]
    assert folded(batches, SCHEMAS) == (Agents(), 40)


def test_a_schema_with_fields_and_symbols_of_later_is_read_together() -> None:
    text = built_in(LEDGER).resolved_text
    later = parse(
        text.replace('"operator"]', '"operator","oracle"]', 1).replace(
            '{"name":"program_version"',
            '{"name":"mood","type":"string","default":""},{"name":"program_version"',
            1,
        )
    )
    assert later != built_in(LEDGER)
    assert ColumnsOfLedger.of(later, 7) is not None


def test_what_natively_cannot_be_read_is_read_one_by_one() -> None:
    text = built_in(LEDGER).resolved_text
    later = parse(
        text.replace('{"name":"run"', '{"name":"raw","type":"bytes","default":""},{"name":"run"', 1)
    )
    assert ColumnsOfLedger.of(later, 7) is None
    assert ColumnsOfLedger.of(built_in(LOG_LINE), 9) is None


def test_a_schema_that_does_not_exist_leaves_entries_out() -> None:
    batches = [batch_of([entry("a", seq, (1, ["x"]))]) for seq in range(40)]
    assert folded(batches, {}) == (Agents(), 40)


def test_what_is_gathered_is_bounded() -> None:
    many = batch_of([entry("a", 0, (1, ["x"]), passages=[passage("x", 2_000)])], codec=Codec.NONE)
    entries = LedgerEntries(SCHEMAS.get)
    times = GATHERED_BYTES // len(many.data) + 1
    found = [entries.add(many) for _ in range(times)]
    assert not any(found[:-1])
    assert found[-1]
