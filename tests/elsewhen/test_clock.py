"""What processes see of a clock that is ahead, and of a locale that the system does not have."""

import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.elsewhen.clock import Clock, compile_clock, environment, own_clock
from tests.elsewhen.locales import DEFINITIONS, NoLocale, locale_path
from tests.elsewhen.moments import LAST
from tests.elsewhen.plugin import END

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
DAY = 86_400

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc)")

# Prints how far everything is from its own clock, in whole seconds.
LOOKING = """
import datetime, os, pathlib, tempfile, threading, time
def ago(stamp): return round(time.time() - stamp)
with tempfile.TemporaryDirectory() as folder:
    plain, source = pathlib.Path(folder, "a"), pathlib.Path(folder, "a.py")
    plain.touch(), source.touch()
    descriptor = os.open(plain, os.O_RDONLY)
    print(round(time.time()), round(datetime.datetime.now().timestamp()))
    print(ago(plain.stat().st_mtime), ago(os.fstat(descriptor).st_mtime), end=" ")
    print(ago(plain.lstat().st_ctime), *(ago(each.stat().st_mtime) for each in os.scandir(folder)
        if each.name == "a"), ago(os.stat("a", dir_fd=os.open(folder, os.O_RDONLY)).st_mtime))
    os.utime(plain, (time.time() - 100, time.time() - 100))
    print(ago(plain.stat().st_mtime), ago(os.fstat(descriptor).st_atime))
    os.utime(plain)
    print(ago(plain.stat().st_mtime), ago(source.stat().st_mtime))
began = time.monotonic()
time.sleep(0.05), threading.Event().wait(0.05), threading.Lock().acquire(timeout=0.05)
print(time.monotonic() - began < 10)
"""

WAITING = """
import java.nio.file.*;
public class Waiting {
    public static void main(String[] arguments) throws Exception {
        Path file = Files.createTempFile("waiting", "");
        System.out.println(System.currentTimeMillis() / 1000);
        System.out.println(Files.getLastModifiedTime(file).toMillis() / 1000);
        Files.delete(file);
        long began = System.nanoTime();
        synchronized (file) { file.wait(50); }
        java.util.concurrent.locks.LockSupport.parkUntil(System.currentTimeMillis() + 50);
        System.out.println(System.nanoTime() - began < 10_000_000_000L);
    }
}
"""


def seen(command: list[str], clock: Clock, library: Path) -> list[str]:
    """What a process prints that goes by that clock."""
    own = {**os.environ, **environment(library, clock, {})}
    run = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return compile_clock(tmp_path)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    clock = Clock(tmp_path / "clock")
    clock.be_ahead(40 * DAY)
    return clock


def is_about(told: str, ahead: float) -> bool:
    """As the test itself may run elsewhen, and slowly."""
    kernels = time.time() - (mine.ahead() if (mine := own_clock()) else 0)
    return abs(float(told) - ahead - kernels) < 60


@pytest.mark.not_quick("starts a process")
@needs_compiler
def test_a_process_and_its_files_are_elsewhen(library: Path, clock: Clock) -> None:
    now, *told = seen([sys.executable, "-c", LOOKING], clock, library)
    assert all(is_about(each, 40 * DAY) for each in now.split())
    assert told == ["0 0 0 0 0", "100 100", f"0 {40 * DAY}", "True"]


@pytest.mark.not_quick("starts Java")
@needs_compiler
def test_so_is_java(library: Path, clock: Clock, tmp_path: Path) -> None:
    java = shutil.which("java")
    if java is None or not (Path(java).resolve().parent / "javac").exists():
        pytest.skip("no Java that compiles")
    (tmp_path / "Waiting.java").write_text(WAITING)
    now, changed, waited = seen([java, str(tmp_path / "Waiting.java")], clock, library)
    assert is_about(now, 40 * DAY)
    assert is_about(changed, 40 * DAY)
    assert waited == "true"


@needs_compiler
def test_the_clock_can_be_put_to_a_moment_meanwhile(library: Path, clock: Clock) -> None:
    asking = [sys.executable, "-c", "import time\nwhile input(): print(time.time(), flush=True)"]
    own = {**os.environ, **environment(library, clock, {})}
    pipe = subprocess.PIPE
    with subprocess.Popen(asking, env=own, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for days in (40, 3, 400):
            clock.be_ahead(days * DAY)
            process.stdin.write("?\n")
            process.stdin.flush()
            assert is_about(process.stdout.readline(), days * DAY)
        process.stdin.write("\n")


BOUND_TO_FAIL = """
import datetime, pytest
WHEN_COLLECTED = datetime.datetime.now(datetime.UTC)
@pytest.mark.parametrize("attempt", range(3))
def test_it(attempt):
    left = (datetime.datetime(2028, 3, 1, tzinfo=datetime.UTC) - WHEN_COLLECTED).total_seconds()
    assert 2 < left <= 32
    print("began", datetime.datetime.now(datetime.UTC).isoformat())
    assert attempt < 2
"""


@pytest.mark.not_quick("runs tests by another clock")
@needs_compiler
def test_each_test_begins_just_before_the_end(library: Path, clock: Clock, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(BOUND_TO_FAIL)
    end = {END: "2028-03-01T00:00:00+00:00", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "tests.elsewhen.plugin", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, **environment(library, clock, {}), **end},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "1 failed, 2 passed" in run.stdout
    began = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("began ")]
    ends = datetime(2028, 3, 1, tzinfo=UTC)
    assert len(began) == 3
    for each in began:
        left = ends - datetime.fromisoformat(each)
        assert -60 < left.total_seconds() <= LAST.total_seconds()


@pytest.mark.not_quick("runs tests by another clock")
@needs_compiler
def test_a_test_that_fails_there_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import time\ndef test_it(): assert time.gmtime().tm_year < 2028\n"
    )

    kept = {name: each for name, each in os.environ.items() if name != "PYTHONPATH"}

    def run(name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tests.elsewhen", name, "--", str(tmp_path), "--rootdir=/"],
            cwd=ROOT,
            env={**kept, "PYTEST_DEBUG_TEMPROOT": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("tomorrow").returncode == 0
    failed = run("leap-day")
    assert failed.returncode == 1
    assert "== failed: leap-day" in failed.stderr
    assert run("yesterday").returncode == 2


@pytest.mark.not_quick("compiles a whole locale")
@pytest.mark.skipif(not DEFINITIONS.joinpath("tr_TR").exists(), reason="no locales to make")
def test_a_locale_is_made(tmp_path: Path) -> None:
    own = {**os.environ, "LC_ALL": "tr_TR.UTF-8", **locale_path("tr_TR.UTF-8", tmp_path)}
    asked = ["locale", "-k", "mon"]
    said = subprocess.run(asked, env=own, capture_output=True, text=True, check=True)
    assert said.stdout.startswith('mon="Ocak;Şubat;Mart;')
    with pytest.raises(NoLocale, match="apt install locales"):
        locale_path("xx_XX.UTF-8", tmp_path)
