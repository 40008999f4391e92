"""What holds for every test, whichever part it is about.

- Property tests are the same on every run of the same files (Hypothesis draws constants of all
  modules that are imported); HYPOTHESIS_PROFILE=fuzz makes them long and random, quick short.
- Under CI=true a skipped test is a failure: what the tests need must be there.
- A test that fails shows what its servers wrote last (runner/last_words.py).
- Programs that tests start find no hypothesis, as at a user's, and no address of a pipeline.
- When all is over, no process that a test started is left, and no file in the temporary directory;
  and no secret has been told (runner/told_secrets.py).
"""

import gc
import logging
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck

from penstock.cli.address_variables import AGENT, AUDIT, BOOTSTRAP, BROKER_HTTP, PROFILE, REGISTRY
from tests.runner.session_mark import SESSION, processes_with

pytest_plugins = [
    "tests.runner.selection",
    "tests.runner.forking",
    "tests.runner.costs",
    "tests.runner.told_secrets",
    "tests.runner.last_words",
    "tests.fixtures.zookeeper",
    "tests.fixtures.running_servers",
    "tests.fixtures.spark_session",
    "tests.fixtures.spark_cluster",
    "tests.fixtures.hdfs",
    "tests.fixtures.s3",
    "tests.fixtures.yarn",
    "tests.fixtures.kerberos",
]

# Whoever was started in the background by a shell ignores Ctrl-C, and so would every child.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is said to this run is said to none that a test starts.
os.environ.pop("PYTEST_ADDOPTS", None)

# Whoever runs the tests may have a pipeline of their own: it is left alone.
NOBODYS = (BOOTSTRAP, REGISTRY, AUDIT, AGENT, BROKER_HTTP)
GRACE_SECONDS = 60.0  # for processes that are just ending: a JVM of Spark's may take long
ENDS_WITH_US = "from multiprocessing.resource_tracker import main"  # of who has spawned a process
SLOW_FIXTURES = {"spark", "spark_cluster", "hdfs", "yarn"}
IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

# A slow machine is no bug: there are no deadlines.
PATIENT = hypothesis.settings(
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis.settings.register_profile("default", PATIENT, derandomize=True, max_examples=50)
hypothesis.settings.register_profile("quick", PATIENT, derandomize=True, max_examples=4)
hypothesis.settings.register_profile("fuzz", PATIENT, max_examples=20_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
# Nor does asyncio warn of what took long, as it does under `-X dev`.
SLOW_STEP = "Executing %s took %.3f seconds"
logging.getLogger("asyncio").addFilter(lambda record: record.msg != SLOW_STEP)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, in whatever order: else all processes but one wait for the last
    of them."""
    slow = {item.path for item in items if _is_slow(item)}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is imported and collected stays until the end, and is the largest part of the heap:
    whoever looks for garbage need not go through it again and again, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000)  # tests make and drop much: 700 would be there every moment


def _is_slow(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return item.get_closest_marker("slow") is not None or not SLOW_FIXTURES.isdisjoint(fixtures)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and CI=true forbids it: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, and CI=true forbids it: {_reason(report.longrepr)}"
    return report


def _reason(longrepr: object) -> str:
    """A skip's report is (file, line, reason)."""
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)


@pytest.fixture(autouse=True, scope="session")
def forks(nothing_is_left_behind: None) -> Iterator[None]:
    """The process that commands are forked from ends before anybody looks what is left, whoever has
    run a command."""
    yield
    running = sys.modules.get("tests.penstock.running")
    if running is not None:
        running.FORKS.close()


@pytest.fixture(autouse=True, scope="session")
def nothing_is_left_behind(
    no_secret_is_told: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    mark = uuid.uuid4().hex
    temporary = tmp_path_factory.mktemp("temporary")
    # What a JVM of Spark's leaves that is killed lies beside that, and not in /tmp.
    of_spark = f"-XX:-UsePerfData -Djava.io.tmpdir={tmp_path_factory.mktemp('jvms')}"
    inherited = {
        SESSION: mark,
        "TMPDIR": str(temporary),
        "SPARK_SUBMIT_OPTS": of_spark,
        "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state")),  # for loaders' keys
    }
    before = _set({**inherited, **dict.fromkeys(NOBODYS), PROFILE: os.devnull})
    tempfile.tempdir = None
    yield
    tempfile.tempdir = None
    _set(before)

    deadline = time.monotonic() + GRACE_SECONDS
    while True:
        left = [
            f"{process.name} {command[:200]}"
            for process, command in processes_with(mark)
            if ENDS_WITH_US not in command
        ]
        files = sorted(path.name for path in temporary.iterdir() if not _is_sparks(path))
        if not (left or files) or time.monotonic() >= deadline:
            break
        time.sleep(0.1)
    assert not left, f"tests left processes behind: {'; '.join(left)}"
    assert not files, f"tests left files behind: {', '.join(files)}"


def _is_sparks(path: Path) -> bool:
    """PySpark makes a directory of a name that says nothing when it starts, its JVM writes a port
    to a file in it, and it is removed: a loader that is killed in between leaves it."""
    if not path.name.startswith("tmp") or not path.is_dir():
        return False
    return all(each.name.startswith(("tmp", "connection")) for each in path.iterdir())


def _set(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """Changes the environment; how these were before."""
    before = {name: os.environ.get(name) for name in variables}
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    return before
