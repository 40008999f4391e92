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
    ├── SparkFailed          7  Spark gave the job up
    └── Interrupted        130  it was asked to stop, and nothing was committed

What goes wrong with a broker is an error of `client.errors`, with a registry of `schemas.errors`.
"""

from typing import ClassVar


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


class Interrupted(LoaderError):
    exit_code = 130
