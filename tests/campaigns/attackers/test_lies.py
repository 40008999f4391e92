"""Lies about entries: what is shown at each offset, however often it is asked for."""

from collections.abc import Sequence

import pytest

from ledger.names import LEDGER_TOPIC
from tests.campaigns.attackers.lies import BrokerLies, EntryLies, entries_of
from wire.record_batches.batch import read_header
from wire.record_batches.records import Record, build_batch, records

NOTHING = None
PROOF = (("proof", b"signature"),)


def value(name: str) -> bytes:
    """An entry as far as a choice by its host looks at it."""
    return b"\0\0\0\0\1" + b"\x80\x80\x01" + bytes([2 * len(b"web-1")]) + b"web-1" + name.encode()


def entry(offset: int, name: str) -> Record:
    return Record(offset, 7, None, value(name), PROOF)


def altered(content: bytes) -> bytes | None:
    return content + b"!" if content.endswith((b"b", b"d")) else None


# What is shown at the offsets of entries a, b, c, d and e.
SHOWN = {
    ("hidden", 2): [NOTHING, NOTHING, "c", "d", "e"],
    ("repeated", 1): ["a", "a", "b", "c", "d"],
    ("repeated", 2): ["a", "a", "a", "b", "c"],
    ("reordered", 1): [NOTHING, "b", "a", "c", "d"],
    ("altered", 1): ["a", "b!", "c", "d", "e"],
    ("altered", 2): ["a", "b!", "c", "d!", "e"],
    ("invented", 1): ["a", "b!", "b", "c", "d"],
}


def names(shown: Sequence[Record | None]) -> list[str | None]:
    return [record and (record.value or b"")[len(value("")) :].decode() for record in shown]


@pytest.mark.parametrize(("kind", "count"), SHOWN)
def test_entries_are_shown_as_the_kind_of_lie_says(kind: str, count: int) -> None:
    lies = EntryLies(kind, count, altered)
    entries = [entry(offset, name) for offset, name in enumerate("abcde")]
    shown = [lies.shown(record) for record in entries]
    assert names(shown) == SHOWN[kind, count]
    assert [lies.shown(record) for record in entries] == shown
    assert all(record is None or record.offset == at for at, record in enumerate(shown))
    assert lies.is_told


def test_an_altered_entry_keeps_its_proof_and_an_invented_one_has_none() -> None:
    for kind, headers in (("altered", PROOF), ("invented", ())):
        shown = EntryLies(kind, 1, altered).shown(entry(0, "b"))
        assert shown is not None
        assert shown.headers == headers


def test_only_chosen_entries_are_hidden_from_one_client() -> None:
    lies = BrokerLies()
    hidden = EntryLies("hidden", 1)
    lies.show_entries("audit", entries_of("web-1"), hidden)
    foreign = Record(0, 7, None, value("x").replace(b"web-1", b"web-2") + b" about web-1")
    batch = build_batch([foreign, entry(1, "a"), entry(2, "b")])
    assert lies.shown("loader", LEDGER_TOPIC, 0, batch) == batch
    assert not hidden.is_told
    shown = lies.shown("audit", LEDGER_TOPIC, 0, batch)
    assert [record.offset for record in records(shown)] == [0, 2]
    assert read_header(shown).last_offset == 2
    assert hidden.is_told
