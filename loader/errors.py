"""What can go wrong in a loader, in one tree, with the exit codes that the program ends with.

    LoaderError              1  says in one line what is wrong and what to do
    ├── StoreError           1  the Hadoop filesystem refuses, or cannot do what is needed
    ├── EnvironmentFailed    1  executors cannot run our Python (loader/environment/errors.py)
    │   └── NotPackable         this environment cannot be packed for them
    ├── OptionRefused        1  an option of `format("penstock")` (loader/source/errors.py)
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
from typing import ClassVar, Final

_DAMAGED: Final = re.compile(r"([A-Za-z0-9._-]+)-(\d+), offsets (\d+) to (\d+): (.+)")


class LoaderError(Exception):
    """Says in one line what is wrong and what to do."""

    exit_code: ClassVar[int] = 1


class StoreError(LoaderError):
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
