"""200,000 rows land once, on each kind of Spark, although drivers, executors and nodes are killed.

A driver is stopped before each step of a commit in turn (stopped_load.py) and killed there, every
other time with its JVM. The next load completes what that one left, with new events, and is killed
at the next step. Executors and nodes are killed while tasks run, which one of them cannot end, and
at steps of a commit; the load goes on, and if it fails, loads follow until one succeeds.

After each kill no row may be there twice; in the end each is there, once. The witness reads the
table's folder with pyarrow, as a user would who knows nothing of manifests.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from msgspec.structs import replace

from harness.hadoop.hdfs import RunningHdfs
from harness.processes.frozen_processes import freeze
from harness.processes.waiting import wait_until
from loader.config import LoaderConfig, Tasks
from loader.errors import SparkFailed
from tests.loader.application import BEGAN, HOUR, Application
from tests.system.loader.places import Local, OnStandalone, OnYarn, Place
from tests.system.loader.programs import WITHIN, LoadProgram
from tests.system.loader.spark_processes import is_running, jvms, kill_all, python_workers
from tests.system.loader.stopped_load import TASKS

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(7200)]

EVENTS: Final = 200_000
MOST_FAILED: Final = 3  # loads in a row, after a kill of executors or of a node
_STATE: Final = "_penstock/*"
_STAGED: Final = f"{_STATE}/staging/run-*-*"
_PIECE: Final = f"{_STAGED}/pieces/kind=rows/slice=*/dt=*-*-*/hour=*/part-*-*.c*.txt"
_MERGED: Final = f"{_STAGED}/merged/joined-*/kind=rows/slice=*/dt=*-*-*/hour=*/part-*-*.c*.txt"
_HOUR: Final = "*/dt=*-*-*/hour=*"
# Reports of failures and of checks, and the columns that a new table has.
_BESIDES: Final = re.compile(r" _penstock/~| \*/_common_metadata$")


class Victim(StrEnum):
    DRIVER = "driver"
    DRIVER_WITH_JVM = "driver with its JVM"
    EXECUTORS = "executors"
    NODE = "node"


class Kill(msgspec.Struct, frozen=True):
    """Who is killed when the driver has come to a step for the `number`-th time."""

    victim: Victim
    step: str
    number: int = 1


# In the order of a commit. A run that was cut short is completed by the next load before anything
# else, with the steps that its own load would have taken: the later ones are killed there.
_DRIVER_STEPS: Final = (
    ("load: land", 1),
    (f"load: {TASKS}", 1),
    ("load: count rows", 1),
    (f"load: create {_STATE}/manifest-*.json", 1),
    (f"load: rename {_PIECE}", 3),
    (f"former: rename {_PIECE}", 2),
    (f"former: replace {_HOUR}/_LATE-*", 1),
    (f"former: replace {_HOUR}/_SUCCESS", 1),
    (f"former: create {_STATE}/visible-*", 1),
    (f"former: delete {_STAGED}", 1),
    ("former: commit offsets", 1),
    ("former: write to the ledger", 2),
    (f"former: create {_STATE}/published-*", 1),
    ("close: merge", 1),
    (f"close: create {_STATE}/manifest-*.json", 1),
    (f"close: delete {_HOUR}/part-local-*-*-*-*.parquet", 2),
    (f"former: rename {_MERGED}", 1),
    (f"former: replace {_HOUR}/_SUCCESS", 2),
    (f"former: create {_STATE}/visible-*", 1),
    (f"former: create {_STATE}/published-*", 1),
)
# Steps that differ from one beside them only in what the brokers or a marker have. On clusters,
# where drivers take longer to start, none is killed at these.
_LESSER_STEPS: Final = frozenset(
    {
        "load: land",
        "load: count rows",
        f"former: replace {_HOUR}/_LATE-*",
        f"former: delete {_STAGED}",
        "former: commit offsets",
        "former: write to the ledger",
    }
)
_EXECUTOR_STEPS: Final = (
    f"load: {TASKS}",
    f"load: create {_STATE}/manifest-*.json",
    "close: merge",
)
_NODE_STEPS: Final = (f"load: {TASKS}", f"load: rename {_PIECE}")


def kills(place: Place) -> list[Kill]:
    steps = [
        (step, number)
        for step, number in _DRIVER_STEPS
        if place.kills_at_lesser_steps or step not in _LESSER_STEPS
    ]
    drivers = (Victim.DRIVER, Victim.DRIVER_WITH_JVM)
    return [
        *(Kill(Victim.NODE, step) for step in _NODE_STEPS if place.has_nodes),
        *(Kill(Victim.EXECUTORS, step) for step in _EXECUTOR_STEPS),
        *(Kill(drivers[turn % 2], step, number) for turn, (step, number) in enumerate(steps)),
    ]


@pytest.fixture(params=["local", "standalone", "YARN"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        return Local(tmp_path)
    hdfs: RunningHdfs = request.getfixturevalue("hdfs")
    if request.param == "standalone":
        return OnStandalone(request.getfixturevalue("spark_cluster"), hdfs, tmp_path)
    return OnYarn(request.getfixturevalue("yarn"), hdfs, tmp_path)


class Trial:
    """Loads of one table, and what is killed meanwhile."""

    def __init__(
        self, place: Place, application: Application, config: LoaderConfig, folder: Path
    ) -> None:
        self.killed: Counter[Victim] = Counter()
        self.codes: Counter[int] = Counter()  # exit codes of loads that ended by themselves
        self.last_words = ""  # of the last of these
        self._place = place
        self._application = application
        self._folder = folder
        tasks = Tasks(records=500, without_spark=0)
        self._config = replace(config, root=place.uri, tasks=tasks)
        self._loads = self._turns = 0

    def write(self, count: int) -> None:
        """Writes events of two new hours into both partitions, and some of an hour before."""
        hour = BEGAN + 2 * self._turns * HOUR
        self._turns += 1
        quarter = count // 4
        for partition in range(2):
            self._application.write(quarter, time=hour, partition=partition)
        late = quarter // 2 if self._turns > 1 else 0
        self._application.write(late, time=hour - HOUR, partition=1)
        self._application.write(quarter - late, time=hour + HOUR, partition=1)
        self._application.write(count - 3 * quarter, time=hour + HOUR)

    def load(self) -> int:
        """Runs a load to its end; returns the exit code."""
        program = self._program("", 1)
        code, output = program.run()
        return self._ended(code, output, program)

    def load_until_success(self, code: int) -> None:
        for _ in range(MOST_FAILED):
            if code == 0:
                return
            code = self.load()
        assert code == 0, self.last_words

    def kill(self, kill: Kill) -> None:
        program = self._program(kill.step, kill.number)
        with program.start() as load:
            try:
                with self._one_task_frozen(load, is_wanted=kill.step.endswith(TASKS)):
                    wait_until(lambda: _is_stopped(load), what=kill.step, within=WITHIN)
                    assert load.poll() is None, f"not stopped: {kill}\n{program.said}"
                    self._kill(kill.victim, load)
                if load.returncode is not None:
                    return
                load.send_signal(signal.SIGCONT)
                output, _ = load.communicate(timeout=WITHIN)
            finally:
                load.kill()
        code = self._ended(load.wait(), output, program)
        print(kill, code)
        assert code in {0, SparkFailed.exit_code}, self.last_words
        self.load_until_success(code)

    def steps(self) -> set[str]:
        """What loads have done from the job that lands rows on, without what no commit needs."""
        files = self._folder.glob("steps-*")
        lines = {line for file in files for line in file.read_text().splitlines()}
        steps = {line.partition(": ")[2] for line in lines if not line.startswith("former: ")}
        return {step for step in steps if not _BESIDES.search(step)}

    def _kill(self, victim: Victim, load: "subprocess.Popen[str]") -> None:
        self.killed[victim] += 1
        if victim is Victim.NODE:
            self._place.lose_node()
        elif victim is Victim.EXECUTORS:
            executors = self._place.executors(load)
            assert executors
            kill_all(executors)
        else:
            jvm = jvms(load.pid)  # none yet where a former load is completed on a local disk
            load.kill()
            load.wait()
            if victim is Victim.DRIVER_WITH_JVM:
                kill_all(jvm)
            # What is left of it may still change files.
            wait_until(lambda: not any(map(is_running, jvm)), what="the JVM ends", within=300)

    @contextmanager
    def _one_task_frozen(self, load: "subprocess.Popen[str]", *, is_wanted: bool) -> Iterator[None]:
        """Keeps the job that lands rows from ending meanwhile, if this is wanted."""
        workers: list[int] = []

        def is_frozen() -> bool:
            running = python_workers(self._place.executors(load))
            workers[:] = running[: len(running) >= self._place.fewest_workers]
            for worker in workers:
                with suppress(ProcessLookupError):
                    freeze(worker)
            return bool(workers) or load.poll() is not None

        if is_wanted:
            wait_until(is_frozen, what="a task runs", within=WITHIN, every=0.05)
        try:
            yield
        finally:
            for worker in workers:
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGCONT)

    def _program(self, step: str, number: int) -> LoadProgram:
        self._loads += 1
        steps = self._folder / f"steps-{self._loads}"
        module = "tests.system.loader.stopped_load"
        return LoadProgram(
            self._config,
            self._folder,
            master=self._place.master,
            conf=self._place.conf,
            environment=self._place.environment,
            command=[sys.executable, "-m", module, str(steps), step, str(number)],
        )

    def _ended(self, code: int, output: str, program: LoadProgram) -> int:
        self.codes[code] += 1
        self.last_words = f"{output}\n{program.said}"
        return code


def _is_stopped(load: "subprocess.Popen[str]") -> bool:
    """Whether the process has stopped, or ended."""
    options = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, load.pid, options) is not None


def rows_in(folder: Path) -> pa.Table:
    """The rows of all files that a reader sees, each with the hour of its folder."""
    hours = ds.partitioning(pa.schema([("dt", pa.string()), ("hour", pa.string())]), flavor="hive")
    files = ds.dataset(folder, format="parquet", partitioning=hours)
    return files.to_table(columns=["source", "seq", "time", "dt", "hour"])


def events_in(rows: pa.Table) -> list[tuple[str, int]]:
    """Source and seq of all rows, ordered."""
    return sorted(zip(rows["source"].to_pylist(), rows["seq"].to_pylist(), strict=True))


def check_hours(table: Path, rows: pa.Table) -> None:
    """Every row is in the folder of its hour, and each hour is complete with its rows."""
    hours = pc.strftime(rows["time"], format="%Y-%m-%d/%H")
    folders = pc.binary_join_element_wise(rows["dt"], rows["hour"], "/")
    assert pc.all(pc.equal(hours, folders)).as_py()
    for folder, count in Counter(folders.to_pylist()).items():
        day, hour = folder.split("/")
        marker = json.loads((table / f"dt={day}" / f"hour={hour}" / "_SUCCESS").read_text())
        assert marker["rows"] == count, folder
    assert not list(table.rglob("_DAMAGED")) + list(table.rglob("_INCOMPLETE"))


def test_every_row_lands_once(
    place: Place, application: Application, config: LoaderConfig, tmp_path: Path
) -> None:
    table = application.topic
    trial = Trial(place, application, config, tmp_path)
    planned = kills(place)
    share = EVENTS // (len(planned) + 2)
    trial.write(share)
    assert trial.load() == 0, trial.last_words
    for kill in planned:
        trial.write(share)
        trial.kill(kill)
        visible = events_in(rows_in(place.root() / table))
        assert len(visible) == len(set(visible)), kill
        assert set(visible) <= set(application.written), kill
    trial.write(EVENTS - len(application.written))
    trial.load_until_success(trial.load())
    wait_until(lambda: not place.executors(), what="executors end", within=300)
    # There is nothing to do, but to remove what is left.
    assert trial.load() == 3, trial.last_words
    print(place.master, dict(trial.killed), dict(trial.codes))

    root = place.root()
    rows = rows_in(root / table)
    assert rows.num_rows == EVENTS
    assert events_in(rows) == sorted(application.written)
    check_hours(root / table, rows)
    assert not list((root / "_penstock" / table).glob("staging/*"))
    assert trial.steps() <= {step.partition(": ")[2] for step, _ in _DRIVER_STEPS}
