"""Reads agents' heartbeats and operators' retirements from the ledger's columns.

Most heartbeats are redundant: of a journal's heartbeats without topics, only the last one counts.
The columns show which ones count, and only these become Python values. Pure.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ledger.agents import AgentEntry, Beat, HostRetired, Statement
from ledger.names import VERSION

_BETWEEN: Final = "\n"  # names of topics
_NO_TOPICS: Final[frozenset[str]] = frozenset()


def statements(body: pa.StructArray) -> list[Statement]:
    """Returns the heartbeats that count, in the order of each journal, and then the retirements,
    from entries of `LEDGER_TYPE`. Entries of a later version are skipped."""
    header = body.field("header")
    source, seq, time = header.field("source"), header.field("seq"), header.field("time")
    beats = body.field("heartbeats")
    known = pc.less_equal(body.field("version"), VERSION)
    agents = pc.and_(known, pc.equal(body.field("tier"), "agent"))
    operators = pc.and_(known, pc.equal(body.field("tier"), "operator"))
    beating = pc.and_(agents, pc.greater(pc.list_value_length(beats), 0))
    chosen = pa.array(_chosen(source, seq, beats, beating), pa.int64())
    host = header.field("host")
    columns = (column.take(chosen).to_pylist() for column in (source, host, seq, time))
    found: list[Statement] = list(map(AgentEntry, *columns, _beats(beats.take(chosen))))
    for row in pc.indices_nonzero(operators).to_pylist():
        at = time[row].as_py()
        found += [
            HostRetired(retired["host"], retired["agent"], retired["since"], at)
            for retired in body.field("retired")[row].as_py()
        ]
    return found


def _beats(beats: pa.ListArray) -> list[tuple[Beat, ...]]:
    flat = beats.flatten()
    until = flat.field("until").to_pylist()
    encoded = pc.binary_join(flat.field("topics"), _BETWEEN).dictionary_encode()
    sets = [
        frozenset(names.split(_BETWEEN)) if names else _NO_TOPICS
        for names in encoded.dictionary.to_pylist()
    ]
    topics = [sets[index] for index in encoded.indices.to_pylist()]
    by_entry, at = [], 0
    for length in pc.list_value_length(beats).to_pylist():
        by_entry.append(tuple(map(Beat, until[at : at + length], topics[at : at + length])))
        at += length
    return by_entry


def _chosen(
    source: pa.StringArray, seq: pa.Int64Array, beats: pa.ListArray, beating: pa.BooleanArray
) -> list[int]:
    """The rows that name topics or have no time; and of each journal, the last row before each of
    these, and its very last row."""
    flat = beats.flatten()
    names = pc.greater(pc.list_value_length(flat.field("topics")), 0)
    matters = pc.or_(names, pc.less_equal(flat.field("until"), 0))
    always = set(pc.unique(pc.list_parent_indices(beats).filter(matters)).to_pylist())
    rows = pc.indices_nonzero(beating)
    chosen: list[int] = []
    last: dict[str, tuple[int, int]] = {}
    columns = (rows.to_pylist(), source.take(rows).to_pylist(), seq.take(rows).to_pylist())
    for row, journal, number in zip(*columns, strict=True):
        if row in always:
            chosen.append(row)
            chosen += last.pop(journal, ())[1:]
        elif journal in last and number < last[journal][0]:
            chosen.append(row)  # a repeated entry
        else:
            last[journal] = number, row
    return sorted([*chosen, *(row for _, row in last.values())])
