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
    """Returns the heartbeats that determine the agents' states, in the order of each journal,
    followed by the retirements. `body` has ledger entries, as `LEDGER_TYPE`; entries of a later
    version are skipped."""
    header = body.field("header")
    source, seq, time = header.field("source"), header.field("seq"), header.field("time")
    beats = body.field("heartbeats")
    is_known = pc.less_equal(body.field("version"), VERSION)
    agents = pc.and_(is_known, pc.equal(body.field("tier"), "agent"))
    operators = pc.and_(is_known, pc.equal(body.field("tier"), "operator"))
    has_beats = pc.and_(agents, pc.greater(pc.list_value_length(beats), 0))
    rows = pa.array(_chosen(source, seq, beats, has_beats), pa.int64())
    host = header.field("host")
    columns = (column.take(rows).to_pylist() for column in (source, host, seq, time))
    result: list[Statement] = list(map(AgentEntry, *columns, _beats(beats.take(rows))))
    for row in pc.indices_nonzero(operators).to_pylist():
        statement_time = time[row].as_py()
        result += [
            HostRetired(
                retirement["host"], retirement["agent"], retirement["since"], statement_time
            )
            for retirement in body.field("retired")[row].as_py()
        ]
    return result


def _beats(beats: pa.ListArray) -> list[tuple[Beat, ...]]:
    flat_beats = beats.flatten()
    until = flat_beats.field("until").to_pylist()
    encoded_topics = pc.binary_join(flat_beats.field("topics"), _BETWEEN).dictionary_encode()
    topic_sets = [
        frozenset(names.split(_BETWEEN)) if names else _NO_TOPICS
        for names in encoded_topics.dictionary.to_pylist()
    ]
    topics = [topic_sets[index] for index in encoded_topics.indices.to_pylist()]
    by_entry, start = [], 0
    for length in pc.list_value_length(beats).to_pylist():
        by_entry.append(
            tuple(map(Beat, until[start : start + length], topics[start : start + length]))
        )
        start += length
    return by_entry


def _chosen(
    source: pa.StringArray, seq: pa.Int64Array, beats: pa.ListArray, beating: pa.BooleanArray
) -> list[int]:
    """The rows that name topics or have no time; and of each journal, the last row before each of
    these, and its very last row."""
    flat_beats = beats.flatten()
    has_topics = pc.greater(pc.list_value_length(flat_beats.field("topics")), 0)
    is_needed = pc.or_(has_topics, pc.less_equal(flat_beats.field("until"), 0))
    needed_rows = set(pc.unique(pc.list_parent_indices(beats).filter(is_needed)).to_pylist())
    rows = pc.indices_nonzero(beating)
    chosen_rows: list[int] = []
    last_rows: dict[str, tuple[int, int]] = {}
    columns = (rows.to_pylist(), source.take(rows).to_pylist(), seq.take(rows).to_pylist())
    for row, journal, entry_seq in zip(*columns, strict=True):
        if row in needed_rows:
            chosen_rows.append(row)
            chosen_rows += last_rows.pop(journal, ())[1:]
        elif journal in last_rows and entry_seq < last_rows[journal][0]:
            chosen_rows.append(row)  # a repeated entry
        else:
            last_rows[journal] = entry_seq, row
    return sorted([*chosen_rows, *(row for _, row in last_rows.values())])
