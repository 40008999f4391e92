"""Keeps track of the folded entries of each journal, and finds the new entries of a chunk.

An entry is identified by its journal and its number in it; a repetition is not folded. Entries
without a journal cannot be told from repetitions, so they are left out. An entry of a later version
counts as present, although its content is not understood. A journal that was forgotten after a long
silence continues at its last number.
"""

import sqlite3
from typing import Final

import msgspec
import numpy as np

from audit.store.entries.chunks import AllNumbers
from audit.store.folding.columns import Entries, Numbers
from audit.store.folding.keyed_intervals import Keyed, Mask, grouped, groups, in_order

_MOST_SEQ: Final = 1 << 62
_QUAD: Final = 32  # bytes: first, end, and when they were written

_KEEP: Final = """
UPDATE journals SET end_seq = ?, last_time = ?, entries = ?, seen = ? WHERE id = ?
"""
# Indexed columns change seldom.
_BEGIN: Final = """
UPDATE journals SET first_seq = ?2, first_time = ?3, holes = ?4 WHERE id = ?1
"""
_WHO: Final = """
UPDATE journals SET tier = ?2, host = ?3 WHERE id = ?1 AND end_seq = ?4 + 1
"""
_SILENT: Final = """
SELECT id, journal, silent.first_seq, silent.end_seq, silent.first_time, silent.last_time
    FROM silent JOIN journals USING (cluster, journal)
    WHERE cluster = ? AND id IN (SELECT value FROM json_each(?))
"""


class SeenEntries(msgspec.Struct, frozen=True):
    """The state of a chunk's entries. `journal` has the journal number of each entry; `new` marks
    entries that were not folded before."""

    journal: Numbers
    new: Mask


class _Before(msgspec.Struct, frozen=True):
    """The state that the chunk's journals had before it. `who`: the tier and host of each."""

    seen: Keyed
    times: Numbers
    who: dict[int, tuple[str, int]]

    def is_begun(self, ids: Numbers, begun: Numbers) -> Mask:
        """Whether the first number, first time and number of holes of these journals are unchanged.
        `ids` must be in ascending order."""
        keys, first_rows, ends = self.seen.groups()
        known_beginnings = np.column_stack(
            (self.seen.first[first_rows], self.times[first_rows, 0], ends - first_rows - 1)
        )
        is_unchanged = np.zeros(len(ids), np.bool_)
        if len(keys):
            places = np.minimum(np.searchsorted(keys, ids), len(keys) - 1)
            is_unchanged = (keys[places] == ids) & (known_beginnings[places] == begun).all(axis=1)
        return is_unchanged


def take(
    connection: sqlite3.Connection, numbers: AllNumbers, cluster: str, entries: Entries
) -> SeenEntries:
    """Marks these entries as folded, and returns which of them are new."""
    names = [text or " " for text in entries.journal.values]
    ids, new_ids = numbers.journals.given(names, cluster)
    journal = np.array(ids, np.int64)[entries.journal.codes] if ids else entries.journal.codes
    has_name = np.array([bool(text) for text in entries.journal.values], np.bool_)
    is_valid = (
        (entries.seq >= 0)
        & (entries.seq < _MOST_SEQ)
        & (has_name[entries.journal.codes] if ids else True)
    )
    _remember(connection, cluster, new_ids)
    state_before = _before(connection, sorted(set(ids)))
    rows = _once(journal, entries.seq, is_valid & ~_inside(state_before.seen, journal, entries.seq))
    if len(rows):
        _keep(connection, numbers, entries, journal, at=rows, before=state_before)
    is_new = np.zeros(len(entries), np.bool_)
    is_new[rows] = True
    return SeenEntries(journal, is_new)


def has_seen(connection: sqlite3.Connection, journal: Numbers, seq: Numbers) -> Mask:
    """Whether entries with these numbers of the journals with these ids were folded."""
    seen = _before(connection, sorted(set(journal.tolist()))).seen
    return _inside(seen, journal, seq)


def unpacked(journal: Numbers, seen: list[bytes]) -> tuple[Keyed, Numbers]:
    """Returns the entries as intervals, with the times of the first and last entry of each
    interval."""
    lengths = np.fromiter(map(len, seen), np.int64, len(seen)) // _QUAD
    quads = np.frombuffer(b"".join(seen), "<i8").reshape(-1, 4)
    return Keyed(np.repeat(journal, lengths), quads[:, 0], quads[:, 1]), quads[:, 2:]


def _remember(connection: sqlite3.Connection, cluster: str, added: list[int]) -> None:
    """Restores journals that had been forgotten."""
    if not added:
        return
    rows = connection.execute(_SILENT, (cluster, str(added))).fetchall()
    for number, journal, first, end, first_time, last_time in rows:
        packed = np.array([first, end, first_time, last_time], "<i8").tobytes()
        connection.execute(_KEEP, (end, last_time, end - first, packed, number))
        connection.execute(_BEGIN, (number, first, first_time, 0))
        connection.execute(
            "DELETE FROM silent WHERE cluster = ? AND journal = ?", (cluster, journal)
        )


def _before(connection: sqlite3.Connection, ids: list[int]) -> _Before:
    rows = connection.execute(
        "SELECT id, seen, tier, host FROM journals WHERE seen IS NOT NULL"
        " AND id IN (SELECT value FROM json_each(?)) ORDER BY id",
        (str(ids),),
    ).fetchall()
    journal_ids = np.array([row[0] for row in rows], np.int64)
    return _Before(
        *unpacked(journal_ids, [row[1] for row in rows]), {row[0]: row[2:] for row in rows}
    )


def _inside(before: Keyed, journal: Numbers, seq: Numbers) -> Mask:
    if not len(before.key):
        return np.zeros(len(seq), np.bool_)
    keys, _, ends = before.groups()
    places = np.minimum(np.searchsorted(keys, journal), len(keys) - 1)
    is_after_all = (keys[places] != journal) | (seq >= before.end[ends[places] - 1])
    is_inside = np.zeros(len(seq), np.bool_)
    unclear_rows = np.flatnonzero(~is_after_all)
    if len(unclear_rows):
        is_inside[unclear_rows] = before.cover(
            Keyed(journal[unclear_rows], seq[unclear_rows], seq[unclear_rows] + 1)
        )
    return is_inside


def _once(journal: Numbers, seq: Numbers, chosen: Mask) -> Numbers:
    """Returns the chosen entries, each once, ordered by journal and number."""
    rows = np.flatnonzero(chosen)
    grouping = grouped(journal[rows], seq[rows])
    return np.asarray(rows[grouping.order[grouping.begins]])


def _keep(
    connection: sqlite3.Connection,
    numbers: AllNumbers,
    entries: Entries,
    journal: Numbers,
    *,
    at: Numbers,
    before: _Before,
) -> None:
    """Adds new entries, which are in order."""
    key = np.concatenate((journal[at], before.seen.key))
    first = np.concatenate((entries.seq[at], before.seen.first))
    end = np.concatenate((entries.seq[at] + 1, before.seen.end))
    from_time = np.concatenate((entries.time[at], before.times[:, 0]))
    to_time = np.concatenate((entries.time[at], before.times[:, 1]))
    order = in_order(key, first)
    key, first, end = key[order], first[order], end[order]
    is_first = np.ones(len(key), np.bool_)
    is_first[1:] = (key[1:] != key[:-1]) | (first[1:] != end[:-1])
    start_rows = np.flatnonzero(is_first)
    stop_rows = np.append(start_rows[1:], len(key)) - 1
    quads = np.column_stack(
        (first[start_rows], end[stop_rows], from_time[order[start_rows]], to_time[order[stop_rows]])
    ).astype("<i8")
    ids, begins, ends = groups(key[start_rows])
    is_touched = np.isin(ids, journal[at])
    ids, begins, ends = ids[is_touched], begins[is_touched], ends[is_touched]
    data = quads.tobytes()
    totals = np.concatenate(([0], np.cumsum(quads[:, 1] - quads[:, 0])))
    packed_entries = [
        data[start * _QUAD : end * _QUAD]
        for start, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    columns = (quads[ends - 1, 1], quads[ends - 1, 3], totals[ends] - totals[begins])
    connection.executemany(
        _KEEP,
        zip(*(column.tolist() for column in columns), packed_entries, ids.tolist(), strict=True),
    )
    beginnings = np.column_stack((quads[begins, 0], quads[begins, 2], ends - begins - 1))
    is_changed = ~before.is_begun(ids, beginnings)
    connection.executemany(_BEGIN, np.column_stack((ids, beginnings))[is_changed].tolist())
    newest_rows = at[groups(journal[at])[2] - 1]
    hosts = np.array(numbers.names.of(entries.host.values), np.int64)
    owners = zip(
        ids.tolist(),
        entries.tier.take(newest_rows),
        hosts[entries.host.codes[newest_rows]].tolist(),
        entries.seq[newest_rows].tolist(),
        strict=True,
    )
    connection.executemany(_WHO, [row for row in owners if before.who.get(row[0]) != row[1:3]])
