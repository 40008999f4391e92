"""Runs the tests of one package on one mutant after the other, in a copy of the checkout.

The copy has an environment of its own, which differs from that of the checkout only in where the
programs are imported from: whatever tests start, and however, cannot come by the checkout. Nothing
is read from compiled files, as Python takes those for current by size and second. A run has a mark,
which all it has started inherit: when it is over they are killed. Killed itself, this command
leaves a copy in the temporary directory, and the checkout as it was.
"""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from tests.mutants.drawing import Edit, Mutant, find
from tests.mutants.outcomes import Outcome, Verdict, package
from tests.runner.session_mark import processes_with

MARK: Final = "PENSTOCK_MUTANT"
# Packages whose tests are in folders of others.
FOLDERS: Final = {
    "columns": ("columns", "loader/decoding"),
    "pyspark_penstock": ("loader/source", "loader/landing", "loader/spark"),
}
_COSTLY: Final = re.compile(r"mark\.slow|: (SparkSession|SparkCluster|RunningHdfs)\b")
_WORTH_STARTING: Final = 3.0  # seconds
_LOOKS_SECONDS: Final = 0.5
# A test that stood still for so long, and needs a third of it without the mutant, hangs.
_HANGS: Final = 15.0
_PYTEST: Final = ("-m", "pytest", "-x", "-v", "-p", "no:randomly", "-p", "no:cacheprovider")
_PASSED: Final = re.compile(r"^\S.* PASSED\b", re.MULTILINE)
_FAILED: Final = re.compile(r"^(\S+::.+) (?:FAILED|ERROR)\b", re.MULTILINE)
_SUMMARY: Final = re.compile(r"^(?:FAILED|ERROR) (\S+\.py.*?)(?: - |$)", re.MULTILINE)
_NO_FAILURE: Final = {0, 5}  # 5: no tests


def groups(root: Path, path: str) -> list[list[str]]:
    """The files of tests that a mutant of this module is tried on, in turn: those that are about it
    by their names or imports; those in the folder that is named as its own; the rest of its
    package. Costly ones of either come after the others."""
    module = Path(path)
    name = path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    found: dict[int, list[tuple[bool, str]]] = {part: [] for part in range(4)}
    for folder in FOLDERS.get(package(path), (package(path),)):
        for file in (root / "tests" / folder).rglob("test_*.py"):
            text = file.read_text()
            is_about_it = name.rpartition(".")[2] in file.stem or name in _imported(text)
            is_near = is_about_it or file.parent == root / "tests" / module.parent
            costly = bool(_COSTLY.search(text))
            found[costly + 2 * (not is_near)].append((not is_about_it, str(file.relative_to(root))))
    return [[file for _, file in sorted(files)] for files in found.values() if files]


def _imported(text: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


class Ran(msgspec.Struct, frozen=True):
    """What a run of tests came to."""

    code: int | None  # nothing, if the time was over
    output: str
    seconds: float
    silent: float  # seconds since the last test began

    @property
    def passed(self) -> int:
        return len(_PASSED.findall(self.output))

    @property
    def failure(self) -> str:
        """The test that failed, or the file that cannot be imported; nothing, if none did."""
        if self.code in _NO_FAILURE:
            return ""
        if named := _SUMMARY.search(self.output) or _FAILED.search(self.output):
            return named[1]
        last = self.output.strip().rpartition("\n")[2]
        return "" if self.code is None else last or f"exit code {self.code}"

    @property
    def unfinished(self) -> str:
        """The test that the time was over at."""
        last = self.output.rpartition("\n")[2].strip()
        return last if self.code is None and "::" in last and not self.failure else ""


class Copy:
    """A copy of the files that belong to a checkout, in a directory that is empty."""

    def __init__(self, checkout: Path, directory: Path) -> None:
        self.root = directory / "copy"
        self._temporary = directory / "t"
        listed = ["git", "-C", str(checkout), "ls-files", "-coz", "--exclude-standard"]
        names = subprocess.check_output(listed, text=True).split("\0")
        compiled = [str(each.relative_to(checkout)) for each in checkout.glob("*/**/_*.so")]
        for name in filter(None, [*names, *compiled]):
            if (checkout / name).is_file() and not name.startswith(".venv/"):
                target = self.root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(checkout / name, target, follow_symlinks=False)
        self.python = self._make_environment()

    def _make_environment(self) -> Path:
        """That of this process, by links; all but what says where the programs are."""
        theirs = Path(sysconfig.get_path("purelib"))
        environment = self.root / ".venv"
        packages = environment / theirs.relative_to(sys.prefix)
        packages.mkdir(parents=True)
        for each in theirs.iterdir():
            if each.name != "_penstock.pth":
                (packages / each.name).symlink_to(each)
        (packages / "_penstock.pth").write_text(f"{self.root}\n")
        shutil.copy2(Path(sys.prefix, "pyvenv.cfg"), environment)
        scripts = environment / "bin"
        scripts.mkdir()
        for each in Path(sys.prefix, "bin").iterdir():
            (scripts / each.name).symlink_to(each)
        penstock = scripts / "penstock"
        if penstock.exists():
            text = penstock.read_text().partition("\n")[2]
            penstock.unlink()
            penstock.write_text(f"#!{scripts / 'python'}\n{text}")
            penstock.chmod(0o755)
        return scripts / "python"

    def check_imports(self, packages: Sequence[str]) -> None:
        """Each comes from the copy, from wherever Python is started."""
        for name in packages:
            code = f"import {name}; print({name}.__path__[0])"
            run = [str(self.python), "-B", "-c", code]
            path = subprocess.check_output(run, cwd="/", text=True, env=self._variables()).strip()
            if path != str(self.root / name):
                raise RuntimeError(f"{name} is imported from {path}, not from {self.root}")

    @contextmanager
    def mutated(self, edit: Edit) -> Iterator[None]:
        path = self.root / edit.mutant.path
        text = path.read_text()
        path.write_text(edit.apply(text))
        try:
            yield
        finally:
            path.write_text(text)

    def run(self, tests: Sequence[str], seconds: float) -> Ran:
        """Runs them until one fails or the time is over; ends what they have started."""
        mark = uuid.uuid4().hex
        self._temporary.mkdir(exist_ok=True)
        output = self._temporary.with_name("output")
        with output.open("wb") as written:
            process = subprocess.Popen(
                [str(self.python), "-B", *_PYTEST, *tests],
                cwd=self.root,
                env={**self._variables(), MARK: mark, "TMPDIR": str(self._temporary)},
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code, spent, silent = _wait(process, output, seconds)
            finally:
                end(process, mark)
        # Some tests have programs write compiled files.
        for each in list(self.root.glob("[!.]*/**/__pycache__")):
            shutil.rmtree(each, ignore_errors=True)
        shutil.rmtree(self._temporary, ignore_errors=True)
        text = output.read_text(errors="replace")
        return Ran(code, text, spent, silent)

    def _variables(self) -> dict[str, str]:
        # Under CI=true a skipped test would be a failure.
        others = {"CI", "PYTEST_ADDOPTS", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
        kept = {name: value for name, value in os.environ.items() if name not in others}
        path = os.environ["PATH"].replace(str(Path(sys.prefix, "bin")), str(self.python.parent))
        return {**kept, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def _wait(
    process: subprocess.Popen[bytes], output: Path, seconds: float
) -> tuple[int | None, float, float]:
    """The exit code, if it ends in time; the seconds for that, and those since it wrote something.
    While this process itself is stopped no time passes."""
    spent = written = 0.0
    size = 0
    while spent < seconds:
        began = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(_LOOKS_SECONDS, seconds - spent))
        spent += min(time.monotonic() - began, 2 * _LOOKS_SECONDS)
        if output.stat().st_size != size:
            size, written = output.stat().st_size, spent
        if process.returncode is not None:
            break
    return process.returncode, spent, spent - written


def end(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kills a run, and all it has started, in whatever group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    while left := list(processes_with(mark, MARK)):
        for path, _ in left:
            with suppress(ProcessLookupError):
                os.kill(int(path.name), signal.SIGKILL)
        time.sleep(0.05)


def judge(copy: Copy, mutant: Mutant, seconds: float) -> Outcome:
    """Tries a mutant."""
    path = copy.root / mutant.path
    edit = find(mutant, path.read_text()) if path.exists() else None
    if edit is None:
        return Outcome(mutant=mutant, verdict=Verdict.GONE)
    with copy.mutated(edit):
        outcome, last = try_tests(copy, mutant, seconds)
    if last.unfinished and last.silent > _HANGS:
        again = copy.run([last.unfinished], last.silent / 3)
        if again.code == 0:
            hanging = f"{last.unfinished}, which hangs"
            changed = {"verdict": Verdict.CAUGHT, "caught_by": hanging, "time_over": False}
            return msgspec.structs.replace(outcome, **changed)
    return outcome


def try_tests(copy: Copy, mutant: Mutant, seconds: float) -> tuple[Outcome, Ran]:
    """Runs the tests of a mutant on the copy as it is: what came of it, and of the last run."""
    spent, passed, ran = 0.0, 0, Ran(0, "", 0.0, 0.0)
    for tests in groups(copy.root, mutant.path):
        left = seconds - spent
        ran = copy.run(tests, left) if left > _WORTH_STARTING else Ran(None, "", 0.0, 0.0)
        spent += ran.seconds
        passed += ran.passed
        if ran.failure or ran.code is None:
            break
    outcome = Outcome(
        mutant=mutant,
        verdict=Verdict.CAUGHT if ran.failure else Verdict.SURVIVED,
        passed=passed,
        seconds=round(spent, 1),
        caught_by=ran.failure,
        time_over=ran.code is None and not ran.failure,
    )
    return outcome, ran
