"""Numbers of a journal under which there are two entries that say other things. One of them was not
written by whoever has the journal, and nobody can know which: neither is believed.

The same entry again is nothing: programs send an entry once more where they do not know whether it
has arrived, and an `_audit` that is read anew has all of them again. So of each entry a digest of
four bytes is kept (audit/store/folding/digests.py), for as long as windows are.

What the first of two entries said may be folded by the time the second comes. So all that the
journal's topics had from then on is unproven, until an operator accepts it.
"""

import logging
import secrets
import sqlite3
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from audit.picture import Disputed, TierKind
from audit.store.database import changed
from audit.store.entries.journals import SeenEntries, unpacked
from audit.store.folding.columns import Entries, Numbers
from audit.store.folding.digests import digests_of
from audit.store.folding.keyed_intervals import Mask, grouped

_BLOCK: Final = 64  # entries whose digests are kept together
_MOST: Final = 1_000  # of one journal, one by one
_MOST_NAMED: Final = 10  # of a chunk, in the log
_KEY_NAME: Final = "entry_key"
_DISPUTE: Final = """
INSERT OR IGNORE INTO disputed SELECT ?1, ?2, ?3, ?4
    WHERE (SELECT count(*) FROM disputed WHERE journal = ?1) < ?5
"""
_OF_TOPIC: Final = """
SELECT journals.journal, tier, text, seq, since FROM disputed
    JOIN journals ON journals.id = disputed.journal LEFT JOIN names ON names.id = host
    WHERE cluster = ?1
    AND (tier = 'broker' OR EXISTS (SELECT 1 FROM journal_topics
        WHERE name = ?2 AND journal_topics.journal = journals.id)
    OR EXISTS (SELECT 1 FROM agent_topics WHERE name = ?2 AND agent_topics.journal = journals.id))
    ORDER BY journals.journal, seq
"""
_HOURS: Final = """
SELECT DISTINCT hours.topic, hour FROM hours JOIN topics ON topics.id = hours.topic
    JOIN topic_names ON topic_names.id = name WHERE cluster = ?1 AND hour > ?2 - 3600000
"""

Digests = NDArray[np.uint32]

log = logging.getLogger(__name__)


class Doubt(msgspec.Struct, frozen=True):
    """`entries` of the chunk are not believed; `hours` of topics may be judged otherwise now."""

    entries: Mask
    hours: set[tuple[int, int]] = set()


def check(
    connection: sqlite3.Connection, cluster: str, entries: Entries, seen: SeenEntries
) -> Doubt:
    """Compares the chunk's entries with each other and with those that are there, and keeps what
    there is to be kept of them."""
    named = np.array([bool(text) for text in entries.journal.values], np.bool_)
    at = np.flatnonzero(named[entries.journal.codes] & (entries.seq >= 0))
    digests = digests_of(entries.body, _key(connection))[at]
    journal, seq = seen.journal[at], entries.seq[at]
    blocks = grouped(journal, seq // _BLOCK)
    keys = list(zip(*(key.tolist() for key in blocks.keys), strict=True))
    kept = _kept(connection, keys)
    row, place = blocks.numbered(), seq % _BLOCK
    # Of numbers that are new, the first entry is what the others are held against.
    new = np.flatnonzero(kept[row, place] == 0)
    together = grouped(journal[new], seq[new])
    first = new[together.order[together.begins]]
    kept[row[first], place[first]] = digests[first]
    packed, size = kept.tobytes(), _BLOCK * kept.itemsize
    connection.executemany(
        "INSERT INTO entry_digests VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT DO UPDATE SET said = ?3, digests = ?4",
        (
            (*key, entries.latest, packed[size * row : size * (row + 1)])
            for row, key in enumerate(keys)
        ),
    )
    doubted = np.zeros(len(entries), np.bool_)
    odd = kept[row, place] != digests
    if not odd.any():
        return Doubt(doubted)
    pairs = set(zip(journal[odd].tolist(), seq[odd].tolist(), strict=True))
    doubted[at] = [each in pairs for each in zip(journal.tolist(), seq.tolist(), strict=True)]
    return Doubt(doubted, _keep(connection, cluster, entries, seen, at[odd]))


def _key(connection: sqlite3.Connection) -> bytes:
    rows = connection.execute("SELECT value FROM meta WHERE name = ?", (_KEY_NAME,)).fetchall()
    if rows:
        return bytes(rows[0][0])
    key = secrets.token_bytes(16)
    connection.execute("INSERT INTO meta VALUES (?, ?)", (_KEY_NAME, key))
    return key


def _kept(connection: sqlite3.Connection, keys: list[tuple[int, int]]) -> Digests:
    """A row for each of these journals and blocks; 0 where nothing is known."""
    rows = connection.execute(
        "SELECT journal, block, digests FROM entry_digests WHERE journal IN"
        " (SELECT value FROM json_each(?)) AND block BETWEEN ? AND ?",
        (
            str(sorted({journal for journal, _ in keys})),
            min((block for _, block in keys), default=0),
            max((block for _, block in keys), default=0),
        ),
    )
    place = {key: at for at, key in enumerate(keys)}
    found = np.zeros((len(keys), _BLOCK), np.uint32)
    known = {
        at: digests
        for journal, block, digests in rows
        if (at := place.get((journal, block))) is not None
    }
    packed = np.frombuffer(b"".join(known.values()), np.uint32)
    found[list(known)] = packed.reshape(-1, _BLOCK)
    return found


def _keep(
    connection: sqlite3.Connection,
    cluster: str,
    entries: Entries,
    seen: SeenEntries,
    odd: Numbers,
) -> set[tuple[int, int]]:
    """What is new of it, and the hours that it concerns."""
    hours: set[tuple[int, int]] = set()
    named = 0
    for at in odd.tolist():
        journal, seq = int(seen.journal[at]), int(entries.seq[at])
        since = _since(connection, journal, seq, int(entries.time[at]))
        values = (journal, seq, since, entries.latest)
        if not changed(connection, _DISPUTE, (*values, _MOST)):
            continue
        hours.update(connection.execute(_HOURS, (cluster, since)).fetchall())
        named += 1
        if named <= _MOST_NAMED:
            row = np.array([at])
            log.warning(
                "two different entries under one number, neither is believed cluster=%s"
                " journal=%.200a seq=%d host=%.200a",
                *(cluster, *entries.journal.take(row), seq, *entries.host.take(row)),
            )
    return hours


def _since(connection: sqlite3.Connection, journal: int, seq: int, time: int) -> int:
    """When the last entry before it was written, at the latest: from then on nothing is proven."""
    rows = connection.execute("SELECT seen FROM journals WHERE id = ?", (journal,)).fetchall()
    there, times = unpacked(np.array([journal]), [row[0] for row in rows])
    before = times[:, 0][(there.first < seq) & (there.end > 0)]
    return min(time, int(before.max(initial=0)) or time)


def of(connection: sqlite3.Connection, cluster: str, name: int) -> list[Disputed]:
    """Those that concern a topic, by its name's number; numbers that follow each other together."""
    found: list[Disputed] = []
    for journal, tier, host, seq, since in connection.execute(_OF_TOPIC, (cluster, name)):
        # Whoever writes under a journal's numbers may call himself anything.
        kind = TierKind(tier) if tier in set(TierKind) else TierKind.AGENT
        last = found[-1] if found else None
        if last is not None and (last.journal, last.seq + last.count) == (journal, seq):
            found[-1] = replace(last, count=last.count + 1, since=min(last.since, since))
        else:
            found.append(Disputed(journal, kind, host or "", seq, 1, since))
    return found
