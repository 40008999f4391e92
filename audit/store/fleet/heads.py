"""Keeps the newest proven heartbeat of each agent, byte for byte, for heads files
(ledger/heads_files.py).

Only journals with a key have one. An entry that only names topics, without a time, is passed over,
as the earlier times stay valid. An entry that is too large is kept without its bytes.
"""

import sqlite3
from collections import defaultdict
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.reconciling.picture import TierKind
from audit.store.fleet.agents import Retired
from audit.store.folding.columns import Entries, Numbers, numbers, parents
from audit.store.folding.keyed_intervals import grouped
from ledger.agents import LEFT_MILLIS

MOST_BYTES: Final = 64 * 1024  # of an entry

_KEEP: Final = """
INSERT INTO heads SELECT ?1, ?2, key, ?3, ?4 FROM journal_keys WHERE cluster = ?5 AND journal = ?6
    ON CONFLICT DO UPDATE SET seq = excluded.seq, key = excluded.key, value = excluded.value,
    proof = excluded.proof WHERE excluded.seq > seq OR excluded.key <> key
"""
_AGENTS: Final = """
SELECT agents.journal, journals.journal, coalesce(text, ''), heard, journal_keys.key,
    heads.key = journal_keys.key, heads.seq, value, proof
    FROM agents JOIN journals ON journals.id = agents.journal
    LEFT JOIN names ON names.id = agents.host
    LEFT JOIN journal_keys ON journal_keys.cluster = agents.cluster
        AND journal_keys.journal = journals.journal
    LEFT JOIN heads ON heads.journal = agents.journal
    WHERE agents.cluster = ? ORDER BY 3, 2
"""
_TOPICS: Final = f"""
SELECT agent_topics.journal, topic FROM agent_topics JOIN agents USING (journal)
    JOIN topic_names ON topic_names.id = name WHERE agents.cluster = ?
    AND (last_named >= named_seq OR heard - agent_topics.last_time < {LEFT_MILLIS})
    ORDER BY agent_topics.journal, topic
"""  # noqa: S608


class KeptHead(msgspec.Struct, frozen=True):
    """An entry with heartbeats, and its proof. `value` is None if it is too large."""

    seq: int
    value: bytes | None
    proof: bytes


class KnownAgent(msgspec.Struct, frozen=True):
    """An agent that was ever heard."""

    agent: str
    host: str
    heard: int
    topics: tuple[str, ...]  # that it ships to
    key: bytes | None  # None: its journal is unsigned
    head: KeptHead | None  # None: none was read yet
    retired: str | None  # why, and by whom


def keep(
    connection: sqlite3.Connection,
    cluster: str,
    entries: Entries,
    journal: Numbers,
    proofs: pa.StructArray,
) -> None:
    """Keeps the newest of these entries, which are believed, of each agent. `journal` has the ids
    of their journals."""
    values = proofs.field("value")
    beats = entries.body.field("heartbeats")
    is_head = np.zeros(len(entries), np.bool_)
    until = numbers(beats.flatten().field("until"))
    is_head[parents(beats)[until > 0]] = True
    is_head &= entries.of_tier(TierKind.AGENT)
    is_head &= values.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_head)
    if not len(rows):
        return
    rows = rows[grouped(journal[rows], then=(entries.seq[rows],)).last()]
    taken = pa.array(rows)
    sizes = numbers(pc.binary_length(values.take(taken)))
    kept_values = pc.if_else(pa.array(sizes <= MOST_BYTES), values.take(taken), None)
    columns = (
        journal[rows].tolist(),
        entries.seq[rows].tolist(),
        kept_values.to_pylist(),
        proofs.field("proof").take(taken).to_pylist(),
        [cluster] * len(rows),
        entries.journal.take(rows),
    )
    connection.executemany(_KEEP, zip(*columns, strict=True))


def known_agents(connection: sqlite3.Connection, cluster: str) -> list[KnownAgent]:
    """Returns the agents of a cluster, by host."""
    topics: defaultdict[int, list[str]] = defaultdict(list)
    for journal, topic in connection.execute(_TOPICS, (cluster,)):
        topics[journal].append(topic)
    retirements = Retired(connection, cluster)
    agents: list[KnownAgent] = []
    for number, agent, host, heard, key, is_of_key, *head in connection.execute(
        _AGENTS, (cluster,)
    ):
        statements = retirements.statement(host, agent, heard)
        agents.append(
            KnownAgent(
                agent,
                host,
                heard,
                tuple(topics[number]),
                key,
                KeptHead(*head) if is_of_key else None,
                statements[0][1] if statements else None,
            )
        )
    return agents
