"""What is to be done about a load that failed, in one line: for whoever reads it in a terminal, or
far away, in the ledger. Pure."""

from typing import Final

from client.errors import ClientError, OffsetsMissing
from loader.environment.errors import EnvironmentFailed
from loader.errors import (
    DamagedBatch,
    FilesDiffer,
    GapError,
    Interrupted,
    LoaderError,
    Mismatch,
    NoSchema,
    RunTaken,
    SparkFailed,
    StoreError,
    TooManyDead,
    TooManyDuplicates,
    TooManyHours,
)
from schemas.errors import RegistryError, SchemaError

_GAP: Final = (
    "penstock load --accept-gap --topics {table} loads what is there, and writes the gap down; to"
    " have none, load more often than retention deletes, and find out what the brokers have lost"
)

# The first that fits: a class stands before the one it is derived from.
_CURES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (GapError, _GAP),
    (OffsetsMissing, _GAP),
    (
        TooManyDead,
        "look at the producer, and at its schema; to load the rest, and keep these as dead letters:"
        " penstock load --topics {table} --set dead_share=1",
    ),
    (
        TooManyDuplicates,
        "have the producer number its events, or leave their source empty; if the log has them"
        " twice: penstock load --topics {table} --set duplicate_share=1",
    ),
    (
        TooManyHours,
        "penstock load --topics {table} --max-records N loads fewer at a time; if the times are"
        " wrong, `oldest` and `newest` make dead letters of them",
    ),
    (
        DamagedBatch,
        "restore the partition from a replica or a backup that is whole: it is read on there",
    ),
    (FilesDiffer, "put the files back, or write their hours anew: penstock load --rebuild"),
    (EnvironmentFailed, "install what is missing, or ship it: penstock load --pack-env"),
    (
        SparkFailed,
        "give executors more memory, or tasks less (`tasks.memory_bytes`); see Spark's log",
    ),
    (NoSchema, "register a schema of the topic: penstock schemas register"),
    (StoreError, "see that `root` can be reached, written to, and has room; the next load goes on"),
    (Mismatch, "load again; if it stays like that, it is a fault of the loader's: report it"),
    (RunTaken, "let one loader be in charge of a table"),
    (Interrupted, "nothing: the next load goes on"),
    (RegistryError, "bring the registry back; the next load goes on"),
    (SchemaError, "register a schema that its events can be read with: penstock schemas register"),
    (ClientError, "bring the brokers back; the next load goes on"),
    (LoaderError, "do what the reason says; the next load goes on"),
)


def cure_of(error: Exception, table: str) -> str:
    """What helps against it, for this table."""
    found = next((cure for kind, cure in _CURES if isinstance(error, kind)), _CURES[-1][1])
    return found.format(table=table)


def reason_of(error: Exception) -> str:
    """What is wrong, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
