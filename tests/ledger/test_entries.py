"""Entries read together say what they say one by one, whatever else is in the log."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.reading.fetcher import FetchedBatch
from ledger.columns import LEDGER_TYPE, ColumnsOfLedger
from ledger.entries import GATHERED_BYTES, LedgerEntries, LedgerRows, SchemaNotThere
from ledger.frames import Frames, NotTogether
from schemas.event_schemas import LEDGER, LOG_LINE, built_in
from schemas.parsing import AvroSchema, parse
from tests.ledger.said import batch_of, entry, passage
from wire.record_batches.batch import read_header
from wire.record_batches.compression import Codec
from wire.record_batches.records import Record, build_batch, records

SCHEMAS = {7: built_in(LEDGER), 8: built_in(LEDGER), 9: built_in(LOG_LINE)}
STATEMENTS = ["rebuilt", "finished", "retired", "accepted", "checked", "damaged"]


def taken(
    batches: Iterable[FetchedBatch], schemas: dict[int, AvroSchema] = SCHEMAS
) -> tuple[list[Any], int]:
    """What is read of them, and how much is left out."""
    entries = LedgerEntries(schemas.get)
    parts = [entries.add(batch) for batch in batches]
    parts.append(entries.take())
    return [each for rows in parts for each in said_in(rows)], entries.left_out


def said_in(rows: LedgerRows | None) -> list[Any]:
    if rows is None:
        return []
    body = rows.body
    assert len(rows.proofs) == len(body)
    rows.proofs.validate(full=True)
    assert body.type == LEDGER_TYPE
    body.validate(full=True)
    return body.to_pylist()  # type: ignore[no-any-return]


def one_by_one(batches: Iterable[FetchedBatch]) -> tuple[list[Any], int]:
    """Each by itself: so few are never read together."""
    found = [taken([batch]) for batch in batches]
    return [each for mine, _ in found for each in mine], sum(left for _, left in found)


def in_some_order(entries: list[Any]) -> list[str]:
    return sorted(json.dumps(each, default=bytes.hex) for each in entries)


def together(
    batches: list[FetchedBatch], schema: AvroSchema = SCHEMAS[7], schema_id: int = 7
) -> Any:
    columns = ColumnsOfLedger.of(schema, schema_id)
    assert columns is not None
    return columns.read(Frames.of([gathered(each) for each in batches])).to_pylist()


def gathered(batch: FetchedBatch) -> tuple[int, int, int, bytes]:
    header = batch.header
    return header.producer_id, header.codec, header.record_count, bytes(batch.data)


def other(value: bytes) -> FetchedBatch:
    data = build_batch([Record(0, 0, None, value)])
    return FetchedBatch(0, read_header(data), memoryview(data))


def values(batch: FetchedBatch) -> list[bytes]:
    return [record.value or b"" for record in records(batch.data)]


beats = st.tuples(st.integers(0, 3), st.lists(st.sampled_from(["x", "y", "ž"]), max_size=2))
more = st.fixed_dictionaries(
    {},
    optional={
        "passages": st.lists(st.builds(passage, st.just("x"), st.integers(0, 3)), max_size=2),
        "tier": st.sampled_from(["agent", "broker", "hdfs"]),
        "version": st.sampled_from([1, 1, 1, 2]),
    },
)
entries: st.SearchStrategy[Any] = st.tuples(
    st.sampled_from(["a", "b", "c"]), st.lists(beats, max_size=2), more
)
kinds: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "codec": st.sampled_from([Codec.ZSTD, Codec.ZSTD, Codec.NONE, Codec.LZ4]),
        "schema_id": st.sampled_from([7, 7, 7, 8]),
        "key": st.sampled_from([None, None, None, b"k"]),
    }
)
odd = st.sampled_from([b"", b"\0\0\0\0\x07", b"\0\0\0\0\x63abc", b"\1" * 20]).map(other)


@pytest.mark.not_quick("reads very many entries in two ways")
@settings(max_examples=20)
@given(st.data())
def test_together_as_one_by_one(data: st.DataObject) -> None:
    """Fewer than a few are read one by one: each log is long enough to be read together."""
    seqs: dict[str, int] = {}
    batches: list[FetchedBatch] = []
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
    found, left_out = taken(batches)
    wanted, not_wanted = one_by_one(batches)
    assert in_some_order(found) == in_some_order(wanted)
    assert left_out == not_wanted


def test_the_entries_of_a_journal_keep_their_order() -> None:
    """In a batch of several or in one of its own, natively or not."""
    mine = [entry("a", seq, (seq + 1, [])) for seq in range(40)]
    yours = [entry("b", seq, (seq + 1, [])) for seq in range(40)]
    batches = [batch_of(mine[:30]), *(batch_of([each]) for each in yours), batch_of(mine[30:])]
    for lot in (batches, [*batches, other(b"")]):
        found, _ = taken(lot)
        for journal in ("a", "b"):
            seqs = [each["header"]["seq"] for each in found if each["header"]["source"] == journal]
            assert seqs == list(range(40))


def test_an_entry_that_says_nothing_has_its_defaults() -> None:
    batches = [batch_of([entry("a", seq)]) for seq in range(40)]
    for found in (taken(batches), one_by_one(batches)):
        assert found[1] == 0
        for each in found[0]:
            assert (each["destination"], each["run"], each["window_millis"]) == ("", -1, 60_000)
            assert [each[name] for name in STATEMENTS] == [[]] * len(STATEMENTS)


def test_what_is_not_as_it_is_expected_is_not_believed() -> None:
    good = batch_of([entry("a", 0, (1, ["x"]))])
    keyed = batch_of([entry("a", 0)], key=b"k")
    assert len(together([good, keyed, with_header(b"\0" * 8), good])) == 4
    value = b"\0\0\0\0\x07" + b"\0" * 4
    for bad in (
        batch_of([entry("a", 0)], schema_id=8),
        batch_of([entry("a", 0)], codec=Codec.GZIP),
        other(value),
        other(b""),
        other(values(good)[0].replace(b"host-of-a", b"host-of-\xff")),
    ):
        with pytest.raises(NotTogether):
            together([good, bad])


def with_header(content: bytes) -> FetchedBatch:
    (value,) = values(batch_of([entry("a", 0, (1, ["x"]))]))
    data = build_batch([Record(0, 0, None, value, (("", content),))])
    return FetchedBatch(0, read_header(data), memoryview(data))


def test_bytes_that_follow_an_entry_are_noticed() -> None:
    """After the last they could pass for the number of its headers, and that for the end of all."""
    value = values(batch_of([entry("a", 0, (1, ["x"]))]))[0]
    good, bad = other(value), other(value + b"\0")
    assert taken([bad] * 20) == ([], 20)
    found, left_out = taken([*[good] * 19, bad])
    assert (len(found), left_out) == (19, 1)
    with pytest.raises(NotTogether):
        together([good, bad])


def test_a_string_that_is_no_text_leaves_its_entry_out() -> None:
    good = batch_of([entry("a", 0, (1, ["x"]))])
    bad = other(values(good)[0].replace(b"host-of-a", b"host-of-\xff"))
    found, left_out = taken([good] * 20 + [bad] + [good] * 20)
    assert (len(found), left_out) == (40, 1)


def test_frames_that_unpack_to_too_much_are_read_one_by_one() -> None:
    """They are bounded there."""
    bomb = batch_of([entry("a", 0, host="h" * 30_000_000)])
    assert len(bomb.data) < 100_000
    with pytest.raises(NotTogether):
        Frames.of([gathered(bomb)])
    good = batch_of([entry("a", 0)])
    found, left_out = taken([good] * 20 + [bomb] + [good] * 20)
    assert (len(found), left_out) == (40, 1)


def test_entries_of_later_versions_are_handed_out() -> None:
    """That they came is known: else their numbers would be missing in their journals."""
    batches = [batch_of([entry("a", seq, version=1 + seq % 2)]) for seq in range(40)]
    found, left_out = taken(batches)
    assert [each["header"]["seq"] for each in found] == list(range(40))
    assert [each["version"] for each in found] == 20 * [1, 2]
    assert left_out == 0


def test_a_schema_that_is_not_there_yet_is_waited_for_not_for_ever() -> None:
    schemas: dict[int, AvroSchema] = {}
    batch = batch_of([entry("a", 0)])
    written = batch.header.max_timestamp
    young = LedgerEntries(schemas.get, lambda: written + 10_000)
    young.add(batch)
    with pytest.raises(SchemaNotThere, match="schema 7"):
        young.take()
    schemas.update(SCHEMAS)
    young.add(batch)
    assert (len(young.take()), young.left_out) == (1, 0)
    nothing: dict[int, AvroSchema] = {}
    for age in (-1, 60_000):
        old = LedgerEntries(nothing.get, lambda age=age: written + age)
        old.add(batch)
        assert (len(old.take()), old.left_out) == (0, 1)


def test_what_natively_cannot_be_read_is_read_one_by_one() -> None:
    text = built_in(LEDGER).resolved_text
    later = parse(
        text.replace(
            '{"name":"run"',
            '{"name":"loop","type":{"type":"array","items":{"type":"record","name":"Loop",'
            '"fields":[{"name":"loop","type":{"type":"array","items":"Loop"}}]}},"default":[]},'
            '{"name":"run"',
            1,
        )
    )
    assert ColumnsOfLedger.of(later, 7) is None
    assert ColumnsOfLedger.of(built_in(LOG_LINE), 9) is None


def test_a_schema_that_is_not_there_is_asked_for_again() -> None:
    """What was written with it is left out until then."""
    schemas: dict[int, AvroSchema] = {}
    entries = LedgerEntries(schemas.get)
    for left_out in (20, 20):
        for seq in range(20):
            entries.add(batch_of([entry("a", seq)]))
        assert len(entries.take()) == (20 if schemas else 0)
        assert entries.left_out == left_out
        schemas[7] = built_in(LEDGER)


def test_what_is_forgotten_is_not_taken() -> None:
    entries = LedgerEntries(SCHEMAS.get)
    entries.add(batch_of([entry("a", 0)]))
    entries.forget()
    assert (len(entries.take()), entries.left_out) == (0, 0)


def test_what_is_gathered_is_bounded() -> None:
    many = batch_of([entry("a", 0, (1, ["x"]), passages=[passage("x", 2_000)])], codec=Codec.NONE)
    entries = LedgerEntries(SCHEMAS.get)
    times = GATHERED_BYTES // len(many.data) + 1
    found = [entries.add(many) for _ in range(times)]
    assert [each for each in found[:-1] if each is not None] == []
    assert found[-1] is not None
    assert len(found[-1]) == times
    assert len(entries.take()) == 0
