"""Finds files that were shipped again as another source: an agent whose data directory was deleted
ships all its files again, and one with a damaged journal ships those that it has forgotten.

Rule 1: Two sources of one host and topic are the same file if different agents reported them, the
        digests of their beginnings are equal, as far as both go, and so are their identities. If
        one identity is unknown, the beginnings must be whole. If both are known and differ, they
        are different files, however similar, with two exceptions. A source that continued in a copy
        of its file has the copy's identity, the latest reported; its former identities count only
        if the beginnings are whole, as the copied file may be another source by now. And a file
        that was copied and emptied while no agent ran lives on in its copy: the copy has the same
        whole beginning, the earlier agent did not know it, and the file under the original's
        identity begins differently now. Two sources of one agent are the same only if it reports
        that it may have forgotten the one, and has not reported that one since.
Rule 2: The copy is the source reported later; of one agent's, the one reported to repeat another.
        Bytes that its original had shipped, too, are copies. They are kept run by run with their
        events and windows, as long as agents' stretches are kept, so the order of folding does not
        matter.
"""

import sqlite3
from collections import defaultdict
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow.compute as pc

from audit.reconciling.picture import Copied
from audit.store.database import all_changed
from audit.store.entries.chunks import Chunk
from audit.store.files.shipped_stretches import stretches_of
from audit.store.folding.columns import Numbers, cut, hours_of, numbers

WHOLE_HEAD: Final = 1024  # bytes: a shorter beginning may be that of many files
_IDENTITY: Final = 5  # its column
_MOST: Final = 20  # other sources that may be the same file

_KEEP: Final = """
INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    path = CASE WHEN excluded.time > time THEN excluded.path ELSE path END,
    identity = CASE WHEN excluded.seq > seq THEN excluded.identity ELSE identity END,
    head = CASE WHEN excluded.head_size > head_size THEN excluded.head ELSE head END,
    shorter = CASE WHEN excluded.head_size > head_size THEN excluded.shorter ELSE shorter END,
    head_size = max(head_size, excluded.head_size),
    first = min(first, excluded.first), time = max(time, excluded.time),
    seq = max(seq, excluded.seq),
    forgotten_before = max(forgotten_before, excluded.forgotten_before)
"""
# All identities of sources that had several, in whichever order they were reported.
_KEEP_FORMER: Final = """
INSERT OR IGNORE INTO former SELECT files.name, files.source, said.value
    FROM files, json_each(json_array(files.identity, ?3)) AS said
    WHERE files.name = ?1 AND files.source = ?2
    AND files.identity <> '' AND ?3 <> '' AND files.identity <> ?3
"""
# Whether two files begin alike, or differently, as far as both beginnings are known.
_BEGIN: Final = """CASE WHEN {one}.head_size = {two}.head_size THEN {one}.head {are} {two}.head
        ELSE min({one}.shorter, {two}.shorter) <> ''
            AND substr({one}.shorter, 1, length({two}.shorter))
                {are} substr({two}.shorter, 1, length({one}.shorter)) END"""
_BEGIN_ALIKE: Final = _BEGIN.format(one="other", two="mine", are="=")
_BEGIN_OTHERWISE: Final = _BEGIN.format(one="emptied", two="original", are="<>")
# The source, the one it may be the same as, and whether it is the copy. Each way has its index.
_SAME: Final = """
SELECT mine.source, other.source, CASE WHEN other.journal = mine.journal
        THEN other.seq < mine.forgotten_before
        ELSE (mine.first, mine.source) > (other.first, other.source) END
    FROM files AS mine {others}
    WHERE mine.name = ?1 AND mine.source IN (SELECT value FROM json_each(?2)) AND mine.head <> ''
    AND other.name = mine.name AND other.host = mine.host AND other.source <> mine.source
    AND (other.journal <> mine.journal
        OR other.seq < mine.forgotten_before OR mine.seq < other.forgotten_before)
    AND {alike} LIMIT ?3
"""
_BY_IDENTITY: Final = _SAME.format(
    others="CROSS JOIN files AS other INDEXED BY files_by_identity",
    alike=f"""other.identity = mine.identity AND other.identity <> '' AND {_BEGIN_ALIKE}""",
)
_BY_HEAD: Final = _SAME.format(
    others="CROSS JOIN files AS other INDEXED BY files_by_head",
    alike=f"""other.head = mine.head AND other.head <> '' AND other.head_size = mine.head_size
    AND mine.head_size >= {WHOLE_HEAD} AND (mine.identity = '' OR other.identity = '')""",
)
_ALIKE_WHOLE: Final = f"""other.head = mine.head AND other.head_size = mine.head_size
    AND mine.head_size >= {WHOLE_HEAD}"""
# One of the two, or both, had another identity before.
_BY_FORMER: Final = tuple(
    _SAME.format(others=others, alike=_ALIKE_WHOLE)
    for others in (
        """CROSS JOIN former ON former.name = mine.name AND former.source = mine.source
    CROSS JOIN files AS other INDEXED BY files_by_identity
        ON other.identity = former.identity AND other.identity <> ''""",
        """CROSS JOIN former INDEXED BY former_by_identity ON former.identity = mine.identity
    CROSS JOIN files AS other ON other.name = former.name AND other.source = former.source""",
        """CROSS JOIN former ON former.name = mine.name AND former.source = mine.source
    CROSS JOIN former AS theirs INDEXED BY former_by_identity
        ON theirs.identity = former.identity
    CROSS JOIN files AS other ON other.name = theirs.name AND other.source = theirs.source""",
    )
)
# The original was copied and emptied while no agent ran. Any of the three may be in the chunk.
_EMPTIED: Final = """
SELECT copy.source, original.source, 1 FROM {files}
    WHERE {spoken}.name = ?1 AND {spoken}.source IN (SELECT value FROM json_each(?2))
    AND copy.name = original.name AND emptied.name = original.name
    AND copy.host = original.host AND emptied.host = original.host
    AND copy.journal <> original.journal AND emptied.journal <> original.journal
    AND (copy.first, copy.source) > (original.first, original.source)
    AND copy.head = original.head AND copy.head <> '' AND original.head <> ''
    AND copy.head_size = original.head_size AND original.head_size >= {whole}
    AND emptied.identity = original.identity AND emptied.identity <> '' AND original.identity <> ''
    AND copy.identity <> original.identity AND copy.identity <> ''
    AND {otherwise}
    AND NOT EXISTS (SELECT 1 FROM files AS known INDEXED BY files_by_identity
        WHERE known.identity = copy.identity AND known.identity <> '' AND known.host = copy.host
        AND known.name = copy.name AND known.journal = original.journal)
    LIMIT ?3
"""
_BY_EMPTIED: Final = tuple(
    _EMPTIED.format(spoken=spoken, files=files, whole=WHOLE_HEAD, otherwise=_BEGIN_OTHERWISE)
    for spoken, files in (
        (
            "copy",
            """files AS copy CROSS JOIN files AS original INDEXED BY files_by_head
    CROSS JOIN files AS emptied INDEXED BY files_by_identity""",
        ),
        (
            "original",
            """files AS original CROSS JOIN files AS copy INDEXED BY files_by_head
    CROSS JOIN files AS emptied INDEXED BY files_by_identity""",
        ),
        (
            "emptied",
            """files AS emptied CROSS JOIN files AS original INDEXED BY files_by_identity
    CROSS JOIN files AS copy INDEXED BY files_by_head""",
        ),
    )
)
# Copies of sources that their agent turns out not to have forgotten, and when they happened.
_REMEMBERED: Final = """
SELECT copies.source, copies.original, mine.topic, from_time FROM copies
    JOIN sources AS mine ON mine.id = copies.source
    JOIN sources AS original ON original.id = copies.original
    JOIN topics ON topics.id = mine.topic
    JOIN files AS copy ON copy.name = topics.name AND copy.source = mine.source
    JOIN files AS first ON first.name = topics.name AND first.source = original.source
    WHERE topics.name = ?1 AND original.source IN (SELECT value FROM json_each(?2))
    AND copy.journal = first.journal AND first.seq >= copy.forgotten_before
"""


def keep(chunk: Chunk, source: Numbers) -> None:
    """Stores reshipped runs; must be called after sources and stretches are stored. `source` is by
    run."""
    reported_files = _keep_files(chunk)
    connection = chunk.connection
    if not connection.execute("SELECT 1 FROM files LIMIT 1").fetchall():
        return
    texts_by_name: dict[int, set[str]] = defaultdict(set)
    for name, text in reported_files:
        texts_by_name[name].add(text)
    entry = chunk.passages.entry[chunk.runs.passage] if len(chunk.runs) else source
    agents = np.flatnonzero(chunk.entries.of_tier("agent")[entry]) if len(source) else source
    shipped_ids = str(np.unique(source[agents]).tolist())
    for name, text in connection.execute(
        "SELECT topics.name, source FROM sources JOIN topics ON topics.id = topic"
        " WHERE sources.id IN (SELECT value FROM json_each(?))",
        (shipped_ids,),
    ):
        texts_by_name[name].add(text)
    queries = [_BY_IDENTITY, _BY_HEAD, *_BY_EMPTIED]
    if connection.execute("SELECT 1 FROM former LIMIT 1").fetchall():
        queries += _BY_FORMER
    for name, texts in texts_by_name.items():
        parameters = (name, msgspec.json.encode(sorted(texts)).decode())
        pairs = {
            (source, other) if is_copy else (other, source)
            for query in queries
            for source, other, is_copy in connection.execute(
                query, (*parameters, _MOST * len(texts))
            )
        }
        for copy, original in sorted(pairs):
            _keep_pair(chunk, name, copy, original)
        _drop_remembered(chunk, parameters)


def _keep_files(chunk: Chunk) -> list[tuple[int, str]]:
    entries = chunk.entries
    list_column = entries.body.field("files")
    has_files = (numbers(pc.list_value_length(list_column)) > 0) & entries.of_tier("agent")
    reported_files: list[tuple[int, str]] = []
    rows: list[tuple[Any, ...]] = []
    for row in np.flatnonzero(has_files).tolist():
        for file in list_column[row].as_py():
            (name,) = chunk.topic_names([file["topic"]])
            time = int(entries.time[row])
            source = cut(file["source"])
            reported_files.append((name, source))
            rows.append(
                (
                    name,
                    source,
                    int(chunk.host[row]),
                    int(chunk.journal[row]),
                    cut(file["path"]),
                    cut(file["identity"]),
                    max(0, file["head_size"]),
                    cut(file["head"]),
                    cut(file["shorter_heads"]),
                    time,
                    time,
                    int(entries.seq[row]),
                    file["forgotten_before"],
                )
            )
    for values in rows:
        name, source, *_ = values
        chunk.connection.execute(_KEEP_FORMER, (name, source, values[_IDENTITY]))
        chunk.connection.execute(_KEEP, values)
    return reported_files


def _keep_pair(chunk: Chunk, name: int, copy: str, original: str) -> None:
    connection = chunk.connection
    rows = connection.execute(
        "SELECT one.topic, one.id, other.id, other.position FROM sources AS one"
        " JOIN sources AS other ON other.topic = one.topic AND other.source = ?3"
        " JOIN topics ON topics.id = one.topic WHERE topics.name = ?1 AND one.source = ?2",
        (name, copy, original),
    ).fetchall()
    for topic, number, original_id, end_offset in rows:
        stretches = stretches_of(
            connection.execute("SELECT stretches FROM details WHERE topic = ?", (topic,))
        )
        copies = stretches[
            (stretches["source"] == number)
            & (stretches["position"] >= 0)
            & (stretches["position"] < end_offset)
        ]
        columns = [copies["seq"], copies["seq"] + copies["events"], copies["position"]]
        columns += [
            np.minimum(copies["end_position"], end_offset),
            copies["from_time"],
            copies["to_time"],
        ]
        has_new = all_changed(
            connection,
            "INSERT INTO copies VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
            " SET end_position = max(end_position, excluded.end_position)",
            (
                (number, original_id, *row)
                for row in zip(*(column.tolist() for column in columns), strict=True)
            ),
        )
        if has_new:
            connection.execute("UPDATE sources SET suspect = 1 WHERE id = ?", (number,))
            hours = np.unique(hours_of(copies["from_time"].astype(np.int64)))
            chunk.touch(np.full(len(hours), topic, np.int64), hours)


def _drop_remembered(chunk: Chunk, parameters: tuple[int, str]) -> None:
    rows = chunk.connection.execute(_REMEMBERED, parameters).fetchall()
    pairs = {(copy, original) for copy, original, _, _ in rows}
    chunk.connection.executemany("DELETE FROM copies WHERE source = ? AND original = ?", pairs)
    if rows:
        topic, time = (np.array([row[column] for row in rows], np.int64) for column in (2, 3))
        chunk.touch(topic, hours_of(time))


def of(connection: sqlite3.Connection, ids: str) -> dict[int, list[Copied]]:
    """Returns the reshipped runs of these sources, each with its original."""
    copies: dict[int, list[Copied]] = defaultdict(list)
    for number, *row in connection.execute(
        "SELECT copies.source, original.source, coalesce(journal, ''), original.events,"
        " copies.seq, copies.end_seq, copies.position, end_position, from_time, to_time,"
        " coalesce((SELECT first FROM files WHERE files.source = mine.source"
        "  AND files.name = (SELECT name FROM topics WHERE topics.id = mine.topic)), -1)"
        " FROM copies JOIN sources AS mine ON mine.id = copies.source"
        " JOIN sources AS original ON original.id = copies.original"
        " LEFT JOIN journals ON journals.id = original.agent"
        " WHERE copies.source IN (SELECT value FROM json_each(?))"
        " ORDER BY copies.source, copies.position, copies.seq",
        (ids,),
    ):
        copies[number].append(Copied(*row))
    return copies
