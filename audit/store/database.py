"""The database: its tables and columns, and its file, which is opened, checked after an unclean
shutdown, and moved aside if damaged.

A file beside it, `audit.open`, exists while it is open. If it exists on opening, the last process
did not close the database, and SQLite checks it; SQLite itself repairs what a kill leaves behind. A
database of another version counts as damaged: it is rebuilt.

Each text is stored once and referred to by a number: hosts, paths and agents in `names`, topics in
`topics`, programs in `journals`, files in `sources`. The writer assigns the numbers
(entries/chunks.py). folding/keyed_intervals.py packs sets, folding/stretches.py packs stretches.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from audit.errors import AuditStoreError, StoreDamaged, TooLargeToStore

FILE: Final = "audit.db"
MARK: Final = "audit.open"
_BESIDE: Final = ("", "-wal", "-shm")
_CACHE_KB: Final = 65_536
_READER_CACHE_KB: Final = 8_192
_WAL_PAGES: Final = 12_000  # pages that change with every chunk are written back seldom
_MOST_WAL_BYTES: Final = 128 * 1024 * 1024
_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_TOO_MUCH: Final = {
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_RANGE,
}


def open_for_writing(directory: Path) -> sqlite3.Connection:
    """Opens the database, and creates it if necessary. Raises StoreDamaged, AuditStoreError."""
    path, mark = directory / FILE, directory / MARK
    with damage_said(path):
        directory.mkdir(parents=True, exist_ok=True)
        is_unclean = mark.exists()
        mark.touch()
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path, check=is_unclean)
        except BaseException:
            connection.close()
            raise
        return connection


def closed(directory: Path) -> None:
    """Notes that the database was closed cleanly. All connections must be closed."""
    (directory / MARK).unlink(missing_ok=True)


def open_for_reading(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KB}")
    connection.execute("PRAGMA query_only = 1")
    return connection


def moved_aside(directory: Path) -> Path | None:
    """Moves the damaged database aside, replacing an earlier one, and returns its path."""
    path = directory / FILE
    new_path = path.with_name(f"{FILE}.damaged")
    if not path.exists():
        return None
    for suffix in _BESIDE:
        sibling = path.with_name(path.name + suffix)
        if sibling.exists():
            sibling.replace(new_path.with_name(new_path.name + suffix))
    (directory / MARK).unlink(missing_ok=True)
    return new_path


@contextlib.contextmanager
def damage_said(path: Path) -> Iterator[None]:
    """Turns SQLite's errors into AuditStoreError."""
    try:
        yield
    except (sqlite3.DatabaseError, OSError) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGE:
            raise StoreDamaged(f"{path} is damaged ({error}): it must be rebuilt") from None
        if code in _TOO_MUCH:
            raise TooLargeToStore(f"{path}: {error}") from error
        raise AuditStoreError(f"{path}: {error}") from error


def _prepare(connection: sqlite3.Connection, path: Path, *, check: bool) -> None:
    # A new database needs no flushes: nothing is lost if a power failure destroys it.
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {_MOST_WAL_BYTES}")
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    if not version:
        connection.execute("BEGIN IMMEDIATE")
        for statement in filter(str.strip, TABLES.split(";\n")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    connection.execute("PRAGMA synchronous = NORMAL")
    if version not in {0, VERSION}:
        raise StoreDamaged(f"{path} has version {version}, not {VERSION}: it must be rebuilt")
    if version and check:
        problems = connection.execute("PRAGMA quick_check(1)").fetchall()
        if problems != [("ok",)]:
            raise StoreDamaged(f"{path} is damaged ({problems[0][0]}): it must be rebuilt")


VERSION: Final = 34

TABLES: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- By cluster: the positions up to which its ledger was folded, and the time of its newest entry.
CREATE TABLE positions (cluster TEXT PRIMARY KEY, positions BLOB, newest INT) WITHOUT ROWID;

CREATE TABLE names (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE topic_names (id INTEGER PRIMARY KEY, cluster TEXT, topic TEXT,
    UNIQUE (topic, cluster));
CREATE TABLE topics (id INTEGER PRIMARY KEY, name INT, topic_id TEXT, last INT DEFAULT 0,
    UNIQUE (name, topic_id));
-- Each commit log of a loader is a tier: `history` is its journal.
CREATE TABLE tiers (id INTEGER PRIMARY KEY, kind TEXT, destination TEXT, history TEXT,
    UNIQUE (kind, destination, history));
CREATE TABLE topic_tiers (topic INT, tier INT, PRIMARY KEY (topic, tier)) WITHOUT ROWID;
-- When a commit log last reported a topic; and logs that another one has replaced there, which do
-- not count (partitions/commit_logs.py).
CREATE TABLE histories (topic INT, tier INT, said INT, PRIMARY KEY (topic, tier)) WITHOUT ROWID;
CREATE TABLE replaced (topic INT, tier INT, PRIMARY KEY (topic, tier)) WITHOUT ROWID;

-- Entries of a journal that were folded: intervals, with the times of the first and last of each.
CREATE TABLE journals (id INTEGER PRIMARY KEY, cluster TEXT, journal TEXT, tier TEXT, host INT,
    first_seq INT, first_time INT, end_seq INT, last_time INT, entries INT, holes INT, seen BLOB,
    UNIQUE (journal, cluster));
CREATE INDEX journals_with_holes ON journals (cluster) WHERE holes > 0;
CREATE INDEX journals_begun ON journals (cluster, first_seq);
CREATE INDEX journals_by_time ON journals (cluster, first_time, first_seq);
CREATE INDEX journals_by_tier ON journals (cluster, tier);
-- Digests of these entries, by number // 64, and when the last was folded; and numbers with two
-- different entries, from when on nothing is proven, and when that was found.
CREATE TABLE entry_digests (journal INT, block INT, said INT, digests BLOB,
    PRIMARY KEY (journal, block)) WITHOUT ROWID;
CREATE TABLE disputed (journal INT, seq INT, since INT, said INT,
    PRIMARY KEY (journal, seq)) WITHOUT ROWID;
-- Journals that were not heard for long, with their ends: one that is heard again continues there.
CREATE TABLE silent (cluster TEXT, journal TEXT, first_seq INT, first_time INT, end_seq INT,
    last_time INT, PRIMARY KEY (cluster, journal)) WITHOUT ROWID;
-- The key of each journal whose entries are signed, the beginning of its sources' ids, what it
-- signed first and last, and the state of its chain (entries/examining.py); and entries that are
-- forged, altered, or of an unknown key, or claim another journal's source.
CREATE TABLE journal_keys (cluster TEXT, journal TEXT, tier TEXT, host TEXT, owner TEXT, key BLOB,
    since INT, time INT, state BLOB, PRIMARY KEY (cluster, journal)) WITHOUT ROWID;
CREATE INDEX journal_keys_by_owner ON journal_keys (owner);
CREATE TABLE proof_faults (cluster TEXT, journal TEXT, kind TEXT, seq INT, end_seq INT, tier TEXT,
    host TEXT, since INT, until INT, said INT, key BLOB,
    PRIMARY KEY (cluster, journal, kind, seq, end_seq)) WITHOUT ROWID;
-- Agents whose passages about a topic have no digest.
CREATE TABLE undigested (name INT, journal INT, first INT, last INT, PRIMARY KEY (name, journal))
    WITHOUT ROWID;
CREATE TABLE journal_topics (name INT, journal INT, PRIMARY KEY (name, journal)) WITHOUT ROWID;

-- Agents by their journal. `all_*`: the newest heartbeat for all topics; `named_seq`: the newest
-- entry that named topics.
CREATE TABLE agents (journal INTEGER PRIMARY KEY, cluster TEXT, host INT, seq INT, heard INT,
    lag_bytes INT, version TEXT, version_seq INT, named_seq INT, named_time INT, all_seq INT,
    all_until INT);
CREATE TABLE agent_topics (name INT, journal INT, first_named INT, last_named INT, last_time INT,
    said_seq INT, until INT, PRIMARY KEY (name, journal)) WITHOUT ROWID;
CREATE INDEX agent_topics_by_agent ON agent_topics (journal, name);
-- The newest proven heartbeat of each journal, as its record has it (fleet/heads.py); `key`: which
-- proves it.
CREATE TABLE heads (journal INTEGER PRIMARY KEY, seq INT, key BLOB, value BLOB, proof BLOB);
-- When the programs of agents and brokers were started, and their versions (fleet/marks.py).
CREATE TABLE starts (journal INT, started INT, version TEXT, PRIMARY KEY (journal, started))
    WITHOUT ROWID;
CREATE INDEX starts_by_time ON starts (started);
CREATE TABLE inventory (host TEXT, topic TEXT, since INT, PRIMARY KEY (host, topic)) WITHOUT ROWID;
CREATE TABLE retired (cluster TEXT, host TEXT, agent TEXT, since INT, time INT, reason TEXT,
    operator TEXT, PRIMARY KEY (cluster, host, agent, time, since)) WITHOUT ROWID;

-- The latest statement of health of each program, an agent by its journal.
CREATE TABLE health (cluster TEXT, kind TEXT, host TEXT, name TEXT, time INT, statement BLOB,
    PRIMARY KEY (cluster, kind, host, name)) WITHOUT ROWID;

CREATE TABLE sums (topic INT, start INT, length INT, tier INT, run INT, events INT, bytes INT,
    crc_sum INT, late INT, duplicates INT, dead INT,
    PRIMARY KEY (topic, start, length, tier, run)) WITHOUT ROWID;
-- Windows of which a tier has reported more than is in `sums`, by an unknown amount.
CREATE TABLE uncounted (topic INT, start INT, length INT, tier INT,
    PRIMARY KEY (topic, start, length, tier)) WITHOUT ROWID;
CREATE TABLE voided (topic INT, tier INT, run INT, from_time INT, to_time INT,
    PRIMARY KEY (topic, tier, run, from_time, to_time)) WITHOUT ROWID;
-- What became of lines, by the window of most events in their runs, or of the agent's report.
CREATE TABLE flows (topic INT, start INT, length INT, shipped INT, events INT, filtered INT,
    dead INT, lost INT, lost_unknown INT, lost_bytes INT,
    PRIMARY KEY (topic, start, length)) WITHOUT ROWID;
CREATE TABLE hours (topic INT, hour INT, tier INT, events INT,
    PRIMARY KEY (topic, hour, tier)) WITHOUT ROWID;
-- Hours in the future, and since when they are known.
CREATE TABLE ahead (topic INT, hour INT, since INT, PRIMARY KEY (topic, hour)) WITHOUT ROWID;
CREATE TABLE delays (topic INT, hour INT, tier INT, doubling INT, events INT,
    PRIMARY KEY (topic, hour, tier, doubling)) WITHOUT ROWID;
CREATE TABLE loads (topic INT, tier INT, run INT, time INT, rows INT, bytes INT, late INT,
    duplicates INT, dead INT, partitions INT, rebuilt INT,
    PRIMARY KEY (topic, tier, run)) WITHOUT ROWID;
CREATE INDEX loads_by_time ON loads (time);

-- Which topics are copies, and of what; which of their offsets brokers have counted as a copy's;
-- and from which offset, and when, they counted others last (partitions/origins.py). `copied`:
-- those whose origin is known here.
CREATE TABLE origins (topic INT, cluster TEXT, origin_topic TEXT, origin_id TEXT, last INT,
    PRIMARY KEY (topic, cluster, origin_topic, origin_id)) WITHOUT ROWID;
CREATE TABLE marked (topic INT, partition INT, upto INT, intervals BLOB,
    PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE opened (topic INT, partition INT, first INT, time INT,
    PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE VIEW copied AS SELECT origins.topic AS copy, topics.id AS origin FROM origins
    JOIN topic_names ON topic_names.topic = origin_topic AND topic_names.cluster = origins.cluster
    JOIN topics ON topics.name = topic_names.id AND topics.topic_id = origin_id;

-- By the leader epoch of the claim. `upto`: the end of what is still in the log.
CREATE TABLE claimed (topic INT, partition INT, tier INT, epoch INT, upto INT, intervals BLOB,
    PRIMARY KEY (topic, partition, tier, epoch)) WITHOUT ROWID;
-- Offsets that a partition lost when a leader epoch began, and when that was first reported
-- (partitions/generations.py).
CREATE TABLE cuts (topic INT, partition INT, epoch INT, next_offset INT, first INT, reason TEXT,
    time INT, PRIMARY KEY (topic, partition, epoch, next_offset)) WITHOUT ROWID;
-- Losses of logs that brokers reported, by leader epoch; `count` is -1 if unknown
-- (partitions/log_losses.py).
CREATE TABLE withdrawn (topic INT, partition INT, epoch INT, first INT, count INT, reason TEXT,
    time INT, PRIMARY KEY (topic, partition, epoch, first, count)) WITHOUT ROWID;
-- What one journal has counted of a partition under each leader epoch, and when it began to.
CREATE TABLE counted_under (topic INT, partition INT, journal INT, epoch INT, first INT,
    next_offset INT, time INT, PRIMARY KEY (topic, partition, journal, epoch)) WITHOUT ROWID;
-- Where leader epochs begin by their leaders' reports, and when that was first reported.
CREATE TABLE begun (topic INT, partition INT, epoch INT, first INT, time INT,
    PRIMARY KEY (topic, partition, epoch)) WITHOUT ROWID;
-- Offsets for which a tier reported another number of events than there are (exactness.py).
CREATE TABLE inexact (topic INT, tier INT, partition INT, epoch INT, said INT, first INT,
    next_offset INT, from_time INT, to_time INT,
    PRIMARY KEY (topic, tier, partition, epoch, said)) WITHOUT ROWID;
-- Claimed offsets, by the window in which their events begin.
CREATE TABLE spans (topic INT, tier INT, partition INT, epoch INT, from_time INT, to_time INT,
    first INT, next_offset INT, events INT, said INT,
    PRIMARY KEY (topic, tier, partition, from_time, epoch)) WITHOUT ROWID;
-- Offsets by the hour of their events, and the hour of the report.
CREATE TABLE placed (topic INT, partition INT, hour INT, said INT, epoch INT, first INT,
    next_offset INT, to_time INT, time INT,
    PRIMARY KEY (topic, partition, hour, said, epoch)) WITHOUT ROWID;
-- Agents' stretches: 0 not read by all loaders yet, 1 read and not landed, 2 landed, 3 between
-- offsets that brokers have claimed, 4 landed and kept (files/shipped_stretches.py).
CREATE TABLE details (id INTEGER PRIMARY KEY, topic INT, kind INT, said INT, stretches BLOB);
CREATE INDEX details_by_topic ON details (topic, kind, said);

CREATE TABLE sources (id INTEGER PRIMARY KEY, topic INT, source TEXT, agent INT DEFAULT 0,
    host INT DEFAULT 0, path INT DEFAULT 0, path_time INT DEFAULT -1, shipped BLOB DEFAULT x'',
    events INT DEFAULT 0, filtered INT DEFAULT 0, dead INT DEFAULT 0, lost_bytes INT DEFAULT 0,
    position INT DEFAULT -1, last INT DEFAULT -1, suspect INT DEFAULT 0, UNIQUE (source, topic));
CREATE INDEX sources_by_topic ON sources (topic, suspect);
CREATE INDEX sources_by_host ON sources (topic, host, suspect);
CREATE INDEX sources_by_path ON sources (path);
CREATE TABLE topic_hosts (topic INT, host INT, PRIMARY KEY (topic, host)) WITHOUT ROWID;
CREATE INDEX topic_hosts_by_host ON topic_hosts (host);
-- `first_time`: when a loader first reported it; the other times span the windows of its events.
CREATE TABLE landed (source INT, tier INT, first_time INT, events INT, intervals BLOB,
    from_time INT, to_time INT,
    PRIMARY KEY (source, tier)) WITHOUT ROWID;
-- `newest` is the latest report of `events`: a file that is read again may have fewer lines.
CREATE TABLE finished (name INT, source TEXT, events INT, size INT, time INT, newest INT,
    PRIMARY KEY (source, name)) WITHOUT ROWID;
CREATE TABLE lost (source INT, seq INT, position INT, end_position INT, lines INT, bytes INT,
    reason TEXT, time INT, PRIMARY KEY (source, seq, position, end_position, time)) WITHOUT ROWID;
-- Seqs that were shipped more than once, and the windows of what was shipped again.
CREATE TABLE twice (source INT, seq INT, end_seq INT, from_time INT, to_time INT,
    PRIMARY KEY (source, seq, end_seq, from_time, to_time)) WITHOUT ROWID;

CREATE TABLE accepted (name INT, journal TEXT, seq INT, number INT, time INT, topic_id TEXT,
    statement BLOB, PRIMARY KEY (name, journal, seq, number)) WITHOUT ROWID;
-- The latest comparison of each hour and destination. `said`: when, by the reporter's clock.
CREATE TABLE checked (name INT, tier INT, hour INT, time INT, said INT, journal TEXT, seq INT,
    files INT, rows INT, faults BLOB, PRIMARY KEY (name, tier, hour)) WITHOUT ROWID;
CREATE TABLE damaged (name INT, topic_id TEXT, partition INT, first INT, count INT, reason TEXT,
    time INT, last INT, PRIMARY KEY (name, topic_id, partition, first, count)) WITHOUT ROWID;
-- When a broker last scrubbed a partition's log: its young segments, and all of them; the time is
-- that of the beginning, 0: never. `time`: of the newest entry that reports it.
CREATE TABLE scrubbed (name INT, topic_id TEXT, partition INT, recent INT, whole INT, time INT,
    PRIMARY KEY (name, topic_id, partition)) WITHOUT ROWID;
-- The latest result of the loads of each topic and destination; `said` as above.
CREATE TABLE loads_tried (name INT, tier INT, time INT, said INT, journal TEXT, seq INT,
    failed INT, since INT, reason TEXT, cure TEXT, PRIMARY KEY (name, tier)) WITHOUT ROWID;

-- Events displaced by others with their source and seq (partitions/collisions.py).
CREATE TABLE collided (topic INT, tier INT, run INT, partition INT, epoch INT, first INT,
    events INT, source TEXT, seq INT, kept_partition INT, kept INT, from_time INT, to_time INT,
    said INT, PRIMARY KEY (topic, tier, run, partition, first, seq, source)) WITHOUT ROWID;

-- By partition: batches that brokers have listed, all listed offsets, and agents' claims, as far as
-- not compared yet (partitions/agent_claims.py).
CREATE TABLE listed (topic INT, partition INT, batches BLOB, offsets BLOB, claims BLOB, said INT,
    PRIMARY KEY (topic, partition)) WITHOUT ROWID;

-- Offsets of which agents have stated a digest, by the hour of the report; offsets that a run has
-- stated as uncompared; and what a later load has compared of runs up to this one, given by the
-- journal of their commit log (partitions/comparisons.py).
CREATE TABLE signed (topic INT, partition INT, said INT, epoch INT, intervals BLOB,
    PRIMARY KEY (topic, partition, said, epoch)) WITHOUT ROWID;
CREATE TABLE uncompared (topic INT, tier INT, run INT, partition INT, epoch INT, first INT,
    time INT, intervals BLOB, PRIMARY KEY (topic, tier, run, partition, epoch, first))
    WITHOUT ROWID;
CREATE TABLE compared (topic INT, journal TEXT, run INT, partition INT, first INT, next_offset INT,
    time INT, intervals BLOB, PRIMARY KEY (topic, journal, run, partition, first, next_offset))
    WITHOUT ROWID;

-- Text that differs from the file's, and unread files (statements/altered_text.py).
CREATE TABLE altered (name INT, hour INT, host TEXT, input TEXT, path TEXT, kind TEXT, field TEXT,
    lines INT, count INT, first INT, last INT, hint TEXT,
    PRIMARY KEY (name, hour, host, input, path, kind, field)) WITHOUT ROWID;
CREATE INDEX altered_unread ON altered (name, host, path) WHERE kind = 'unread';

-- Times that agents did not watch; `number` within the entry. Beyond the limit, one row: seq -1.
CREATE TABLE unwatched (name INT, journal TEXT, seq INT, number INT, time INT, host TEXT, path TEXT,
    source TEXT, position INT, from_time INT, to_time INT, traces TEXT, reason TEXT,
    PRIMARY KEY (name, journal, seq, number)) WITHOUT ROWID;
-- The file of each source (`seq`: of the newest entry that reports it); all identities of sources
-- that had several; and, for a file that was shipped before as another source, which events and
-- bytes those were (files/reshipments.py).
CREATE TABLE files (name INT, source TEXT, host INT, journal INT, path TEXT, identity TEXT,
    head_size INT, head TEXT, shorter TEXT, first INT, time INT, seq INT, forgotten_before INT,
    PRIMARY KEY (name, source)) WITHOUT ROWID;
CREATE INDEX files_by_identity ON files (identity, host) WHERE identity <> '';
CREATE INDEX files_by_head ON files (head, host) WHERE head <> '';
CREATE TABLE former (name INT, source TEXT, identity TEXT, PRIMARY KEY (name, source, identity))
    WITHOUT ROWID;
CREATE INDEX former_by_identity ON former (identity);
CREATE TABLE copies (source INT, original INT, seq INT, end_seq INT, position INT,
    end_position INT, from_time INT, to_time INT,
    PRIMARY KEY (source, original, seq, end_seq, position)) WITHOUT ROWID;
-- Seqs that became rows more than once, at one destination.
CREATE TABLE landed_twice (source INT, tier INT, seq INT, end_seq INT, from_time INT, to_time INT,
    PRIMARY KEY (source, tier, seq, end_seq, from_time, to_time)) WITHOUT ROWID;

CREATE TABLE judged (topic INT, hour INT, state TEXT, events INT, missing INT, excess INT,
    pending_windows INT, findings INT, waits TEXT, accepted TEXT, kinds TEXT,
    dead_lines INT, dead_events INT, PRIMARY KEY (topic, hour)) WITHOUT ROWID;
CREATE INDEX judged_open ON judged (topic, hour) WHERE state <> 'complete';
CREATE TABLE alerts (kind TEXT, cluster TEXT, topic TEXT, host TEXT, hour INT, raised INT,
    resolved INT, words TEXT, finding TEXT, since INT,
    PRIMARY KEY (kind, cluster, topic, host, hour, raised)) WITHOUT ROWID;
CREATE INDEX alerts_by_time ON alerts (raised);

-- Changes of groups and brokers seen by this audit, which are in no ledger (fleet/marks.py).
CREATE TABLE seen_marks (time INT, kind TEXT, cluster TEXT, topic TEXT, name TEXT, words TEXT,
    PRIMARY KEY (time, kind, cluster, topic, name)) WITHOUT ROWID;
-- Lags measured by this audit, which are in no ledger (fleet/lags.py). `kind`: agent, group, files.
-- A series without a name is the sum over its kind, and shows that it was measured.
CREATE TABLE lag_series (id INTEGER PRIMARY KEY, kind TEXT, cluster TEXT, topic TEXT, name TEXT,
    UNIQUE (name, kind, cluster, topic));
CREATE TABLE lags (series INT, time INT, amount INT, behind INT, PRIMARY KEY (series, time))
    WITHOUT ROWID;
CREATE INDEX lags_by_time ON lags (time);
"""


_Value = int | str | bytes | None


def changed(connection: sqlite3.Connection, statement: str, values: Sequence[_Value] = ()) -> int:
    """Executes a statement, and returns how many rows it inserted, changed or deleted. A cursor's
    `rowcount` is not reliable: Python recognizes INSERT by lowercasing the statement, which fails
    in a Turkish locale."""
    changes_before = connection.total_changes
    connection.execute(statement, values)
    return connection.total_changes - changes_before


def all_changed(
    connection: sqlite3.Connection, statement: str, rows: Iterable[Sequence[_Value]]
) -> int:
    changes_before = connection.total_changes
    connection.executemany(statement, rows)
    return connection.total_changes - changes_before
