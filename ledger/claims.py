"""Which events lie at which offsets, as agents claim it: the runs of a passage, laid upon its
offsets. Both are in the same order: the first event of the first run is at the first offset.

A claim names the journal it was made in, and is believed as it stands: journals are not signed yet,
and a source does not name its owner. Pure.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ledger.names import VERSION

_MOST: Final = 1 << 40  # events of one passage


class Claim(NamedTuple):
    """Consecutive events at consecutive offsets."""

    journal: str
    partition: int
    first: int
    source: str
    seq: int
    events: int


def claims(
    body: pa.StructArray, topic: str, topic_id: str, sources: Collection[str]
) -> Iterator[Claim]:
    """Those about these sources in one topic, of entries as `LEDGER_TYPE`."""
    if not len(body):
        return
    passages = body.field("passages")
    flat = passages.flatten()
    entry = pc.list_parent_indices(passages)
    known = pc.and_(pc.equal(body.field("tier"), "agent"), _known(body))
    mine = pc.and_(known.take(entry), pc.equal(flat.field("topic"), topic))
    mine = pc.and_(mine, pc.equal(flat.field("topic_id"), topic_id))
    runs = flat.field("runs")
    wanted = pc.is_in(runs.flatten().field("source"), value_set=pa.array(sources, pa.string()))
    speaking = pc.unique(pc.list_parent_indices(runs).filter(wanted))
    mine = pc.and_(mine, pc.is_in(pa.array(range(len(flat)), speaking.type), value_set=speaking))
    journals = body.field("header").field("source").take(entry)
    for row in pc.indices_nonzero(mine).to_pylist():
        for each in _laid(journals[row].as_py(), flat[row].as_py()):
            if each.source in sources:
                yield each


def _known(body: pa.StructArray) -> pa.BooleanArray:
    return pc.less_equal(body.field("version"), VERSION)


def _laid(journal: str, passage: Mapping[str, Any]) -> Iterator[Claim]:
    """A run that reaches over the end of a stretch is cut there; one beyond all of them lies
    nowhere."""
    stretches = iter(passage["offsets"])
    first = room = 0
    for run in passage["runs"]:
        seq, left = run["seq"], min(max(run["events"], 0), _MOST)
        while left:
            while not room:
                stretch = next(stretches, None)
                if stretch is None:
                    return
                first, room = stretch["first"], max(stretch["count"], 0)
            part = min(left, room)
            yield Claim(journal, passage["partition"], first, run["source"], seq, part)
            first, room, seq, left = first + part, room - part, seq + part, left - part
