"""The errors of a loader, with the exit codes of `penstock load`, and advice for each error, which
is printed and stored in the ledger.

    LoaderError              1  one line: what is wrong and what to do
    ├── StoreError           1  the Hadoop filesystem refused, or lacks a needed operation
    │   ├── NoTicket            no valid Kerberos ticket
    │   ├── NoStagingFolder     Spark may not write an application's files, for YARN, to HDFS
    │   ├── QuotaExceeded       a quota of HDFS leaves no room
    │   └── BlocksUnavailable   no DataNode can store a block, or has one that is needed
    ├── EnvironmentFailed    1  the driver or the executors lack something to run our Python
    │   └── NotPackable         the installation cannot be shipped: a distribution is missing, or is
    │                           only a link to a working directory
    ├── OptionRefused        1  an option of `format("penstock")` is unknown or invalid, or
    │                           contradicts another
    ├── DeadRecord           1  `format("penstock")` cannot decode a record, and may not skip it
    ├── NoSchema             1  a topic has no schema to read its events with
    │   └── SchemaDeleted           its versions were deleted
    ├── ColumnChanged        1  the latest schema gives a column a type that its files do not have
    ├── Mismatch             1  staged files differ from what was read: nothing is committed
    ├── GapError             4  events are gone: by retention, or since a topic was recreated
    │   ├── NothingLeft         the brokers have no event of an hour that was to be rebuilt
    │   └── RowsLost            a rebuild would remove rows that exist nowhere else
    ├── RunTaken             5  another loader committed this run, or is working on it
    ├── TooManyDead          6  the share of undecodable records is too high: nothing is committed
    ├── TooManyDuplicates    6  the share of duplicates is too high: nothing is committed
    ├── TooManyHours         6  one run has events of too many hours: nothing is committed
    ├── FilesDiffer          8  landed files differ from what was committed
    ├── RowsAltered          8  landed rows are not what agents have signed
    ├── SparkFailed          7  a Spark job failed
    │   └── DamagedBatch        a batch in the log is damaged
    └── Interrupted        130  the loader was stopped, and nothing was committed

Errors of brokers are in `client.errors`, those of the registry in `schemas.errors`.
"""

import functools
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

from client.errors import ClientError, NotAllowed, OffsetsMissing
from schemas.errors import RegistryError, SchemaError

_DAMAGED: Final = re.compile(r"([A-Za-z0-9._-]+)-(\d+), offsets (\d+) to (\d+): (.+)")


class LoaderError(Exception):
    """An error of the loader: a one-line message that includes the remedy."""

    exit_code: ClassVar[int] = 1


class StoreError(LoaderError):
    pass


class NoTicket(StoreError):
    pass


class NoStagingFolder(StoreError):
    pass


class QuotaExceeded(StoreError):
    pass


class BlocksUnavailable(StoreError):
    pass


class NoSchema(LoaderError):
    pass


class SchemaDeleted(NoSchema):
    """The error for a deleted subject. Its text names the subject and its newest version in the
    form of other errors, from which the cure takes them."""


class ColumnChanged(LoaderError):
    pass


class Mismatch(LoaderError):
    pass


class GapError(LoaderError):
    exit_code = 4


class NothingLeft(GapError):
    pass


class RowsLost(GapError):
    def __init__(self, text: str, rows: int) -> None:
        super().__init__(text)
        self.rows = rows


class RunTaken(LoaderError):
    exit_code = 5


class TooManyDead(LoaderError):
    exit_code = 6


class TooManyDuplicates(LoaderError):
    exit_code = 6


class TooManyHours(LoaderError):
    exit_code = 6


class SparkFailed(LoaderError):
    exit_code = 7


class DamagedBatch(SparkFailed):
    """The error for a damaged batch, raised in a task and restored on the driver from Spark's error
    message."""

    def __init__(self, topic: str, partition: int, first: int, end: int, reason: str) -> None:
        super().__init__(f"{topic}-{partition}, offsets {first} to {end - 1}: {reason}")
        self.topic = topic
        self.partition = partition
        self.first = first
        self.end = end
        self.reason = reason

    @classmethod
    def from_text(cls, text: str) -> "DamagedBatch | None":
        match = _DAMAGED.fullmatch(text)
        if match is None:
            return None
        topic, partition, first_offset, last_offset, reason = match.groups()
        return cls(topic, int(partition), int(first_offset), int(last_offset) + 1, reason)


class FilesDiffer(LoaderError):
    """The error that files differ from their commit, although rows were loaded. Hours are folders,
    such as dt=2026-11-20/hour=07."""

    exit_code = 8

    def __init__(
        self,
        text: str,
        *,
        rebuild: Sequence[str] = (),
        moves: Sequence[str] = (),
        moved: Sequence[str] = (),
        more_moves: int = 0,
    ) -> None:
        """`rebuild` are hours with missing or changed files. `moves` are commands that move extra
        files of the hours `moved` away; `more_moves` files have none."""
        super().__init__(text)
        self.rebuild = rebuild
        self.moves = moves
        self.moved = moved
        self.more_moves = more_moves


class RowsAltered(LoaderError):
    """The error that batches are not what agents have signed, although their rows were loaded."""

    exit_code = 8

    def __init__(self, text: str, *, rebuild: Sequence[str] = ()) -> None:
        """`rebuild` are the hours of these rows."""
        super().__init__(text)
        self.rebuild = rebuild


class Interrupted(LoaderError):
    exit_code = 130


class EnvironmentFailed(LoaderError):
    pass


class NotPackable(EnvironmentFailed):
    pass


class OptionRefused(LoaderError):
    pass


class DeadRecord(LoaderError):
    pass


_MOST_HOURS: Final = 24  # of a command
_VERSION: Final = re.compile(r"\(([A-Za-z0-9._-]+), version (\d+)\)")
_GAP: Final = (
    "`{load} --accept-gap` loads the rest, and records the gap; to avoid gaps, load more often than"
    " retention deletes ({penstock} topics describe TOPIC shows `retention.ms`), and find out what"
    " the brokers lost"
)
_ROWS_LOST: Final = (
    "leave the files as they are; missing lines may still be in log files or backups"
    " (docs/how-to/replay-a-day.md); so that brokers keep events longer:"
    " {penstock} topics alter TOPIC --config retention.ms=N; with `--remove-rows {rows}` the"
    " rebuild goes on without these rows, and moves the replaced files to"
    " `_penstock/{table}/replaced`, where they stay for 30 days"
)
_REBUILD_GAP: Final = (
    "`{load} --accept-gap` rebuilds the hours from what the brokers have; they are incomplete then,"
    " until what is missing is accepted in the audit, or shipped again and rebuilt"
)
_ALTERED: Final = (
    "find out who could change the log: the brokers' disks, the brokers, a mirror; restore the"
    " partition from an intact replica or backup, and read the hours again: `{load}`"
)
# The first match counts: a class precedes its base class.
_CURES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (
        NothingLeft,
        "ship the lines of the hour again, or accept what is missing: {penstock} audit accept",
    ),
    (GapError, _GAP),
    (OffsetsMissing, _GAP),
    (
        TooManyDead,
        "check the producer and its schema; to load the rest, and keep these as dead letters:"
        " `{load} --set dead_share=1`",
    ),
    (
        TooManyDuplicates,
        "make the producer number its events, or leave their source empty; if the log has them"
        " twice: `{load} --set duplicate_share=1`",
    ),
    (
        TooManyHours,
        "load fewer at a time: `{load} --max-records N`; if the times are wrong, `oldest` and"
        " `newest` turn such events into dead letters",
    ),
    (
        DamagedBatch,
        "restore the partition from an intact replica or backup; the next load continues there",
    ),
    (EnvironmentFailed, "install what is missing, or ship it: `{load} --pack-env`"),
    (
        SparkFailed,
        "give executors more memory, or tasks less (`tasks.memory_bytes`); see Spark's log",
    ),
    (
        SchemaDeleted,
        "`{penstock} schemas show{schema}` shows the newest deleted version; to restore it, save it"
        " as FILE, and `{penstock} schemas register FILE --subject{subject}`; {penstock} changes"
        " has who deleted it, and when",
    ),
    (
        NoSchema,
        "register a schema for the topic: {penstock} schemas register FILE --topic TOPIC; if a typo"
        " created the topic: {penstock} topics delete TOPIC",
    ),
    (
        ColumnChanged,
        "to go back to the former type, `{penstock} schemas delete{schema} --yes`, then"
        " `{load} --set dead_share=1`: events with the new one become dead letters; to keep the new"
        " one, load the topic into another table, with `tables`, and the first time with"
        " `--set dead_share=1`, as former events may become dead letters there",
    ),
    (
        NoTicket,
        "fix the cause, and try `kinit -k -t KEYTAB PRINCIPAL` as the loader's user; the next load"
        " continues",
    ),
    (
        NoStagingFolder,
        "let the superuser of HDFS create the home of the loader's user: `hdfs dfs -mkdir -p"
        " /user/NAME`, `hdfs dfs -chown NAME /user/NAME`; or name a folder that this user may write"
        " to: `spark.yarn.stagingDir` in `spark.conf`; the next load continues",
    ),
    (
        QuotaExceeded,
        "`hdfs dfs -count -q -h FOLDER` shows quotas and their use; the superuser of HDFS raises"
        " them: `hdfs dfsadmin -setSpaceQuota SIZE FOLDER`, `-setQuota FILES FOLDER`; the next load"
        " continues",
    ),
    (
        BlocksUnavailable,
        "`hdfs dfsadmin -report` lists the DataNodes: restart those that are dead, and check that"
        " this host and the executors reach their ports; the next load continues",
    ),
    (
        StoreError,
        "check that the folder that `root` names in the loader's configuration can be reached and"
        " written to, and that its disk has space and inodes (`df -h`, `df -i`); the next load"
        " continues",
    ),
    (Mismatch, "load again; if it happens again, it is a bug in the loader: report it"),
    (RunTaken, "run only one loader for a table"),
    (Interrupted, "run it again: nothing is half done"),
    (RegistryError, "restore the registry; the next load continues"),
    (SchemaError, "register a schema that can read the events: {penstock} schemas register"),
    (NotAllowed, "grant the permission: {penstock} acls add; the next load continues"),
    (ClientError, "restore the brokers; the next load continues"),
    (LoaderError, "fix the cause; the next load continues"),
)


def cure_of(
    error: Exception,
    table: str,
    config_options: tuple[str, ...] = (),
    rebuild: Sequence[str] = (),
) -> str:
    """Advice for this error and table, with commands that name the loader's configuration file and
    the hours of a failed rebuild."""
    advice = next((cure for kind, cure in _CURES if isinstance(error, kind)), _CURES[-1][1])
    version_match = _VERSION.search(str(error))
    subject = f" {version_match[1]}" if version_match else ""
    schema = f"{subject} --version {version_match[2]}" if version_match else ""
    load = load_command(table, config_options)
    if isinstance(error, RowsLost):
        return _ROWS_LOST.format(penstock=_penstock(), rows=error.rows, table=table)
    is_gap = isinstance(error, GapError | OffsetsMissing | DamagedBatch)
    if rebuild and is_gap and not isinstance(error, NothingLeft):
        return _REBUILD_GAP.format(load=f"{load}{_options('--rebuild', rebuild)}")
    if isinstance(error, FilesDiffer):
        return "; ".join(_repairs(error, load))
    if isinstance(error, RowsAltered):
        return _ALTERED.format(load=f"{load}{_options('--rebuild', error.rebuild)}")
    return advice.format(load=load, penstock=_penstock(), schema=schema, subject=subject)


def load_command(table: str, config_options: tuple[str, ...] = ()) -> str:
    """The command that loads one table with this configuration."""
    return f"{_penstock()} {shlex.join(['load', *config_options, '--topics', table])}"


@functools.cache
def _penstock() -> str:
    """The command: by its path if a shell does not find it, as below `penstock up`."""
    executable = Path(sys.executable).parent / "penstock"
    is_found = shutil.which("penstock") is not None or not executable.exists()
    return "penstock" if is_found else shlex.quote(str(executable))


def _repairs(error: FilesDiffer, load: str) -> Iterator[str]:
    """The steps that repair damaged hours, in their order."""
    if error.moves:
        commands = "; ".join(f"`{move_command}`" for move_command in error.moves)
        yield f"move files that no run wrote out of the table: {commands}"
    if error.more_moves:
        move_note = (
            f"such files, {error.more_moves:,} more," if error.moves else "files that no run wrote"
        )
        yield f"move {move_note} out of the table by hand"
    if error.rebuild:
        rebuild = _options("--rebuild", error.rebuild)
        yield f"put missing and changed files back, or rewrite the hours: `{load}{rebuild}`"
    if error.moved and set(error.moved) - set(error.rebuild):
        check = _options("--check-files", error.moved)
        yield f"then check: `{load}{check}` (each load does, too)"


def _options(option: str, hours: Sequence[str]) -> str:
    """The option for each hour, up to the most that a command names."""
    return "".join(f" {option} {hour}" for hour in hours[:_MOST_HOURS])


def reason_of(error: Exception) -> str:
    """The error message, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
