"""What can go wrong in a loader, in one tree, with the exit codes that the program ends with; and
what is to be done about it, for whoever reads that in a terminal, or far away, in the ledger.

    LoaderError              1  says in one line what is wrong and what to do
    ├── StoreError           1  the Hadoop filesystem refuses, or cannot do what is needed
    │   └── NoTicket            it wants Kerberos, which gives none, or one that is over
    ├── EnvironmentFailed    1  says what the driver or the executors lack to run our Python
    │   └── NotPackable         what is installed here cannot be shipped: a distribution is missing,
    │                           or is there only as a link to somebody's working directory
    ├── OptionRefused        1  an option of `format("penstock")` is unknown, contradicts another,
    │                           or cannot be understood
    ├── DeadRecord           1  a record that `format("penstock")` cannot decode, and may not skip
    ├── NoSchema             1  a topic has no schema that its events could be read with
    ├── Mismatch             1  staged files do not hold what was read: nothing is committed
    ├── GapError             4  what should be read is not there: retention, a topic made anew
    ├── RunTaken             5  another loader has committed this run, or is at work
    ├── TooManyDead          6  more than the set share cannot be decoded: nothing is committed
    ├── TooManyDuplicates    6  more than the set share are duplicates: nothing is committed
    ├── TooManyHours         6  events of too many hours for one run: nothing is committed
    ├── FilesDiffer          8  landed files are not as they were committed
    ├── SparkFailed          7  Spark gave the job up
    │   └── DamagedBatch        a batch in the log is not what was written
    └── Interrupted        130  it was asked to stop, and nothing was committed

What goes wrong with a broker is an error of `client.errors`, with a registry of `schemas.errors`.
"""

import re
import shlex
from typing import ClassVar, Final

from client.errors import ClientError, NotAllowed, OffsetsMissing
from schemas.errors import RegistryError, SchemaError

_DAMAGED: Final = re.compile(r"([A-Za-z0-9._-]+)-(\d+), offsets (\d+) to (\d+): (.+)")


class LoaderError(Exception):
    """Says in one line what is wrong and what to do."""

    exit_code: ClassVar[int] = 1


class StoreError(LoaderError):
    pass


class NoTicket(StoreError):
    pass


class NoSchema(LoaderError):
    pass


class Mismatch(LoaderError):
    pass


class GapError(LoaderError):
    exit_code = 4


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
    """Said in a task, and read again from what Spark makes of that."""

    def __init__(self, topic: str, partition: int, first: int, end: int, reason: str) -> None:
        super().__init__(f"{topic}-{partition}, offsets {first} to {end - 1}: {reason}")
        self.topic = topic
        self.partition = partition
        self.first = first
        self.end = end
        self.reason = reason

    @classmethod
    def from_text(cls, text: str) -> "DamagedBatch | None":
        found = _DAMAGED.fullmatch(text)
        if found is None:
            return None
        topic, partition, first, last, reason = found.groups()
        return cls(topic, int(partition), int(first), int(last) + 1, reason)


class FilesDiffer(LoaderError):
    exit_code = 8


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


_HOUR: Final = re.compile(r"\bdt=\d{4}-\d\d-\d\d/hour=\d\d\b")
_GAP: Final = (
    "`{load} --accept-gap` loads what is there, and writes the gap down; to"
    " have none, load more often than retention deletes, and find out what the brokers have lost"
)
# The first that fits: a class stands before the one it is derived from.
_CURES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (GapError, _GAP),
    (OffsetsMissing, _GAP),
    (
        TooManyDead,
        "look at the producer, and at its schema; to load the rest, and keep these as dead letters:"
        " `{load} --set dead_share=1`",
    ),
    (
        TooManyDuplicates,
        "have the producer number its events, or leave their source empty; if the log has them"
        " twice: `{load} --set duplicate_share=1`",
    ),
    (
        TooManyHours,
        "`{load} --max-records N` loads fewer at a time; if the times are"
        " wrong, `oldest` and `newest` make dead letters of them",
    ),
    (
        DamagedBatch,
        "restore the partition from a replica or a backup that is whole: it is read on there",
    ),
    (FilesDiffer, "put the files back, or write their hours anew: `{load}{rebuild}`"),
    (EnvironmentFailed, "install what is missing, or ship it: `{load} --pack-env`"),
    (
        SparkFailed,
        "give executors more memory, or tasks less (`tasks.memory_bytes`); see Spark's log",
    ),
    (NoSchema, "register a schema of the topic: penstock schemas register"),
    (NoTicket, "do what the reason says, and try it with `kinit -k -t`; the next load goes on"),
    (StoreError, "see that `root` can be reached, written to, and has room; the next load goes on"),
    (Mismatch, "load again; if it stays like that, it is a fault of the loader's: report it"),
    (RunTaken, "let one loader be in charge of a table"),
    (Interrupted, "nothing: the next load goes on"),
    (RegistryError, "bring the registry back; the next load goes on"),
    (SchemaError, "register a schema that its events can be read with: penstock schemas register"),
    (NotAllowed, "allow it: penstock acls add; the next load goes on"),
    (ClientError, "bring the brokers back; the next load goes on"),
    (LoaderError, "do what the reason says; the next load goes on"),
)


def cure_of(error: Exception, table: str, config: str = "") -> str:
    """What helps against it, for this table and the loader's file."""
    found = next((cure for kind, cure in _CURES if isinstance(error, kind)), _CURES[-1][1])
    file = f" --config {shlex.quote(config)}" if config else ""
    hours = dict.fromkeys(_HOUR.findall(str(error)))
    rebuild = "".join(f" --rebuild {hour}" for hour in hours) or " --rebuild HOUR"
    return found.format(load=f"penstock load{file} --topics {table}", rebuild=rebuild)


def reason_of(error: Exception) -> str:
    """What is wrong, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
