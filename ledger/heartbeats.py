"""What agents and operators say in entries of the ledger, out of its columns, as far as it counts.

Most heartbeats are superfluous: of a journal's that name no topics, those before the last say
nothing more. So it is decided in columns which of them count, and only these become values. Pure.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ledger.agents import AgentSaid, Beat, HostRetired, Said
from ledger.names import VERSION

_BETWEEN: Final = "\n"  # names of topics
_NO_TOPICS: Final[frozenset[str]] = frozenset()


def said(body: pa.StructArray) -> list[Said]:
    """Of entries as `LEDGER_TYPE`: agents' heartbeats in the order of each journal, then who was
    retired. Of a later version nothing is understood."""
    header = body.field("header")
    source, seq, time = header.field("source"), header.field("seq"), header.field("time")
    beats = body.field("heartbeats")
    known = pc.less_equal(body.field("version"), VERSION)
    agents = pc.and_(known, pc.equal(body.field("tier"), "agent"))
    operators = pc.and_(known, pc.equal(body.field("tier"), "operator"))
    beating = pc.and_(agents, pc.greater(pc.list_value_length(beats), 0))
    chosen = pa.array(_chosen(source, seq, beats, beating), pa.int64())
    host = header.field("host")
    taken = (column.take(chosen).to_pylist() for column in (source, host, seq, time))
    found: list[Said] = list(map(AgentSaid, *taken, _beats(beats.take(chosen))))
    for row in pc.indices_nonzero(operators).to_pylist():
        at = time[row].as_py()
        found += [
            HostRetired(each["host"], each["agent"], each["since"], at)
            for each in body.field("retired")[row].as_py()
        ]
    return found


def _beats(beats: pa.ListArray) -> list[tuple[Beat, ...]]:
    flat = beats.flatten()
    until = flat.field("until").to_pylist()
    named = pc.binary_join(flat.field("topics"), _BETWEEN).dictionary_encode()
    sets = [
        frozenset(names.split(_BETWEEN)) if names else _NO_TOPICS
        for names in named.dictionary.to_pylist()
    ]
    topics = [sets[each] for each in named.indices.to_pylist()]
    found, at = [], 0
    for length in pc.list_value_length(beats).to_pylist():
        found.append(tuple(map(Beat, until[at : at + length], topics[at : at + length])))
        at += length
    return found


def _chosen(
    source: pa.StringArray, seq: pa.Int64Array, beats: pa.ListArray, beating: pa.BooleanArray
) -> list[int]:
    """Entries that name topics, or say that they have no time, and of each journal the last one
    before each of those, and the last of all."""
    flat = beats.flatten()
    names = pc.greater(pc.list_value_length(flat.field("topics")), 0)
    telling = pc.or_(names, pc.less_equal(flat.field("until"), 0))
    tell = set(pc.unique(pc.list_parent_indices(beats).filter(telling)).to_pylist())
    rows = pc.indices_nonzero(beating)
    chosen: list[int] = []
    last: dict[str, tuple[int, int]] = {}
    columns = (rows.to_pylist(), source.take(rows).to_pylist(), seq.take(rows).to_pylist())
    for row, journal, number in zip(*columns, strict=True):
        if row in tell:
            chosen.append(row)
            chosen += last.pop(journal, ())[1:]
        elif journal in last and number < last[journal][0]:
            chosen.append(row)  # it came again
        else:
            last[journal] = number, row
    return sorted([*chosen, *(row for _, row in last.values())])
