"""What agents say of themselves, kept so that the order in which entries come does not matter.

The meaning is that of ledger/agents.py. Of an agent is kept its newest heartbeat for all topics,
and of each topic that it named when that was, and the newest heartbeat that names it with a time.
An entry that names topics names all of them. `until` of a topic is what was said last of the two;
what was said for all counts only for topics that had been named by then.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.folding.columns import Numbers, numbers, parents, texts
from audit.folding.grouping import grouped
from audit.folding.keyed import Mask
from audit.store.chunks import Chunk

_BEAT: Final = """
INSERT INTO agents VALUES (?, ?, ?, ?, ?, ?, '', -1, -1, -1, ?, ?)
ON CONFLICT DO UPDATE SET
    host = CASE WHEN excluded.seq > seq THEN excluded.host ELSE host END,
    lag_bytes = CASE WHEN excluded.seq > seq THEN excluded.lag_bytes ELSE lag_bytes END,
    heard = max(heard, excluded.heard), seq = max(seq, excluded.seq),
    all_until = CASE WHEN excluded.all_seq > all_seq THEN excluded.all_until ELSE all_until END,
    all_seq = max(all_seq, excluded.all_seq)
"""
_VERSION: Final = """
UPDATE agents SET version_seq = ?2, version = ?3 WHERE journal = ?1 AND version_seq < ?2
"""
_NAMED: Final = """
UPDATE agents SET named_seq = ?2, named_time = ?3 WHERE journal = ?1 AND named_seq < ?2
"""
_TOPIC: Final = """
INSERT INTO agent_topics VALUES (?, ?, ?, ?, ?, -1, 0)
ON CONFLICT DO UPDATE SET first_named = min(first_named, excluded.first_named),
    last_time = CASE WHEN excluded.last_named > last_named THEN excluded.last_time
        ELSE last_time END,
    last_named = max(last_named, excluded.last_named)
"""
_UNTIL: Final = """
UPDATE agent_topics SET said_seq = ?3, until = ?4 WHERE name = ?1 AND journal = ?2 AND said_seq < ?3
"""


def keep(chunk: Chunk) -> None:
    entries = chunk.entries
    lists = entries.body.field("heartbeats")
    beats = lists.flatten()
    if not len(beats):
        return
    agent = entries.of_tier("agent")
    entry = parents(lists)
    at = np.flatnonzero(agent[entry])
    if len(at) < len(beats):
        beats, entry = beats.take(at), entry[at]
    until = np.clip(numbers(beats.field("until")), 0, entries.latest)
    named = numbers(pc.list_value_length(beats.field("topics"))) > 0
    _keep_agents(chunk, entry, numbers(beats.field("lag_bytes")), until, ~named)
    at = np.flatnonzero(named)
    if len(at):
        version = texts(beats.field("program_version").take(at)).take(np.arange(len(at)))
        _keep_names(chunk, entry[at], version)
        _keep_topics(chunk, entry, until, beats.field("topics"))


def _keep_agents(
    chunk: Chunk, entry: Numbers, lag_bytes: Numbers, until: Numbers, unnamed: Mask
) -> None:
    entries = chunk.entries
    together = grouped(chunk.journal[entry], then=(entries.seq[entry],))
    last = together.last()
    (journals,) = together.keys
    all_seq, all_until = _of_all_topics(chunk, journals, entry[unnamed], until[unnamed])
    chunk.connection.executemany(
        _BEAT,
        zip(
            journals.tolist(),
            [chunk.cluster] * len(last),
            chunk.host[entry[last]].tolist(),
            entries.seq[entry[last]].tolist(),
            together.most(entries.time[entry]).tolist(),
            lag_bytes[last].tolist(),
            all_seq.tolist(),
            all_until.tolist(),
            strict=True,
        ),
    )


def _of_all_topics(
    chunk: Chunk, journals: Numbers, entry: Numbers, until: Numbers
) -> tuple[Numbers, Numbers]:
    """Of each journal the newest entry that says a time for all topics, -1 if there is none, and
    the least that it says."""
    by_entry = grouped(entry)
    least = by_entry.least(until)
    (rows,) = by_entry.keys
    rows, least = rows[least > 0], least[least > 0]
    seq = chunk.entries.seq[rows]
    together = grouped(chunk.journal[rows], then=(seq,))
    last = together.last()
    at = np.searchsorted(journals, together.keys[0])
    found = np.full(len(journals), -1), np.zeros(len(journals), np.int64)
    found[0][at], found[1][at] = seq[last], least[last]
    return found


def _keep_names(chunk: Chunk, entry: Numbers, version: list[str]) -> None:
    entries = chunk.entries
    together = grouped(chunk.journal[entry], then=(entries.seq[entry],))
    last = together.last()
    (journals,) = together.keys
    seqs = entries.seq[entry[last]].tolist()
    times = entries.time[entry[last]].tolist()
    chunk.connection.executemany(_NAMED, zip(journals.tolist(), seqs, times, strict=True))
    versions = [version[row] for row in last.tolist()]
    chunk.connection.executemany(_VERSION, zip(journals.tolist(), seqs, versions, strict=True))


def _keep_topics(chunk: Chunk, entry: Numbers, until: Numbers, topics: pa.ListArray) -> None:
    beat = parents(topics)
    names = texts(topics.flatten())
    name = np.array(chunk.topic_names(names.values), np.int64)[names.codes]
    row = entry[beat]
    seq, time, journal = chunk.entries.seq[row], chunk.entries.time[row], chunk.journal[row]
    together = grouped(name, journal, then=(seq,))
    last = together.last()
    keys = [key.tolist() for key in together.keys]
    rows = zip(
        *keys, together.least(seq).tolist(), seq[last].tolist(), time[last].tolist(), strict=True
    )
    chunk.connection.executemany(_TOPIC, rows)
    chunk.connection.executemany(
        "INSERT OR IGNORE INTO journal_topics VALUES (?, ?)", zip(*keys, strict=True)
    )
    positive = np.flatnonzero(until[beat] > 0)
    together = grouped(name[positive], journal[positive], then=(seq[positive],))
    last = positive[together.last()]
    chunk.connection.executemany(
        _UNTIL,
        zip(
            *(key.tolist() for key in together.keys),
            seq[last].tolist(),
            until[beat[last]].tolist(),
            strict=True,
        ),
    )
