"""Reads the offsets of events from agents' ledger entries.

A passage lists runs of events and stretches of offsets in the same order: the first event of the
first run is at the first offset. A claim names the journal that makes it, and the row of the entry:
whether the journal has signed that is examined elsewhere (signed_journals.py). Pure.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ledger.names import VERSION

_MOST: Final = 1 << 40  # events of one passage


class Claim(NamedTuple):
    """A claim that consecutive events are at consecutive offsets."""

    row: int  # of the entry in its chunk
    journal: str
    partition: int
    first: int
    source: str
    seq: int
    events: int


def claims(
    body: pa.StructArray, topic: str, topic_id: str, sources: Collection[str]
) -> Iterator[Claim]:
    """Yields the claims about these sources in one topic; `body` has the ledger entries, as
    `LEDGER_TYPE`."""
    if not len(body):
        return
    passages = body.field("passages")
    flat_passages = passages.flatten()
    entry = pc.list_parent_indices(passages)
    is_known = pc.and_(pc.equal(body.field("tier"), "agent"), _known(body))
    is_chosen = pc.and_(is_known.take(entry), pc.equal(flat_passages.field("topic"), topic))
    is_chosen = pc.and_(is_chosen, pc.equal(flat_passages.field("topic_id"), topic_id))
    runs = flat_passages.field("runs")
    has_source = pc.is_in(runs.flatten().field("source"), value_set=pa.array(sources, pa.string()))
    passage_rows = pc.unique(pc.list_parent_indices(runs).filter(has_source))
    all_rows = pa.array(range(len(flat_passages)), passage_rows.type)
    is_chosen = pc.and_(is_chosen, pc.is_in(all_rows, value_set=passage_rows))
    journals = body.field("header").field("source").take(entry)
    for row in pc.indices_nonzero(is_chosen).to_pylist():
        origin = entry[row].as_py(), journals[row].as_py()
        for claim in _located(origin, flat_passages[row].as_py()):
            if claim.source in sources:
                yield claim


def _known(body: pa.StructArray) -> pa.BooleanArray:
    return pc.less_equal(body.field("version"), VERSION)


def _located(origin: tuple[int, str], passage: Mapping[str, Any]) -> Iterator[Claim]:
    """A run is cut where a stretch ends; runs beyond the last stretch have no offsets."""
    stretches = iter(passage["offsets"])
    first = room = 0
    for run in passage["runs"]:
        seq, events = run["seq"], min(max(run["events"], 0), _MOST)
        while events:
            while not room:
                stretch = next(stretches, None)
                if stretch is None:
                    return
                first, room = stretch["first"], max(stretch["count"], 0)
            count = min(events, room)
            yield Claim(*origin, passage["partition"], first, run["source"], seq, count)
            first, room, seq, events = (first + count, room - count, seq + count, events - count)
