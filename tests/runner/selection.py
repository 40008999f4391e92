"""`--quick`: only fast tests that start no program: `make quick`.
`--long`: tests that are marked `long` as well, which no other run has.
`--of=broker/storage/log.py`: the files of tests in its folder, named like it, or importing it.

Quick is decided by file, before it is imported: a file is left out if it imports something that
starts programs, itself or by way of `tests`, `harness` and `bench`, or asks for a fixture of a
module that does. A test that starts a program in a quick run fails. Of the quick files, tests are
left out that are marked `slow`, `long`, `fuzz` or `not_quick`; the last says why: it measures, or
needs large amounts of data. A property test runs at most as many examples as the profile gives,
even where it asks for more.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
STARTERS: Final = (
    "subprocess",
    "multiprocessing",
    "playwright",
    "pyspark",
    "cluster.zookeeper_server.server.EmbeddedZooKeeper",
    "cluster.zookeeper_server.jars.find_java",
    "cluster.zookeeper_server.jars.find_class_path",
    "harness.processes.server_process",
)
OURS: Final = ("tests", "harness", "bench")
MARKS: Final = ("long", "slow", "fuzz", "not_quick")
_IMPORT: Final = re.compile(
    r"^(?:import ([\w.]+)|from ([\w.]+) import (?:\(([^)]*)\)|(.*)))", re.MULTILINE
)
_FIXTURE: Final = re.compile(r"^@pytest\.fixture\b.*\n(?:@.*\n)*(?:async )?def (\w+)", re.MULTILINE)
_ARGUMENT: Final = re.compile(r"\b(\w+): |usefixtures\(\"(\w+)\"")
_LEFT_OUT: Final = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only tests that start no program")
    parser.addoption("--long", action="store_true", help="tests that are marked long, too")
    parser.addoption(
        "--of",
        metavar="MODULE.py",
        help="only files of tests in this module's folder, named like it, or importing it",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LEFT_OUT] = Counter()
    if config.getoption("--quick"):
        sys.addaudithook(_forbid_programs)


def _forbid_programs(event: str, arguments: tuple[Any, ...]) -> None:
    # ctypes asks ldconfig where the C library is.
    if event == "subprocess.Popen" and arguments[0] != "/sbin/ldconfig":
        raise AssertionError(f"a quick test starts {arguments[1]}: see tests/runner/selection.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not asked about a file that is named on the command line."""
    if not collection_path.name.startswith("test_"):
        return None
    module = config.getoption("--of")
    if module and not is_of(collection_path, Path(module)):
        return True
    if config.getoption("--quick") and why_not_quick(collection_path):
        config.stash[_LEFT_OUT]["files that start programs"] += 1
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    quick = config.getoption("--quick")
    marks = MARKS if quick else () if config.getoption("--long") else MARKS[:1]
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        mark = next(filter(item.get_closest_marker, marks), None)
        starts = quick and why_not_quick(item.path)
        (left if mark or starts else kept).append(item)
        if mark:
            config.stash[_LEFT_OUT][f"tests marked {mark}"] += 1
        elif starts:
            config.stash[_LEFT_OUT]["tests of files that start programs"] += 1
        elif quick:
            bound_examples(item, hypothesis.settings().max_examples)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if left_out := config.stash[_LEFT_OUT]:
        said = ", ".join(f"{count} {what}" for what, count in left_out.most_common())
        terminalreporter.write_line(f"left out: {said}")


def bound_examples(item: Any, most: int) -> None:
    """Hypothesis looks its settings up when the test is run: at the function, or, of a state
    machine, at the class."""
    for owner, name in (
        (getattr(item, "function", None), "_hypothesis_internal_use_settings"),
        (getattr(item, "cls", None), "settings"),
    ):
        own = getattr(owner, name, None)
        if isinstance(own, hypothesis.settings) and own.max_examples > most:
            setattr(owner, name, hypothesis.settings(own, max_examples=most))


def is_of(file: Path, module: Path) -> bool:
    """Whether a file of tests is about a module: by its folder, its name, or what it imports."""
    package = module.parent if module.stem == "__init__" else module.with_suffix("")
    return (
        file.parent == ROOT / "tests" / module.parent
        or ".".join(package.parts) in imports(file)
        or (module.stem in file.stem and file.is_relative_to(ROOT / "tests" / module.parts[0]))
    )


@cache
def why_not_quick(file: Path) -> str:
    """What a file of tests has that starts programs; empty if it is quick."""
    if starter := starter_of(file):
        return starter
    asked = {name for pair in _ARGUMENT.findall(file.read_text()) for name in pair if name}
    folders = [each for each in file.parents if each.is_relative_to(ROOT / "tests")]
    return next(iter(asked & set().union(*map(fixtures_that_start, folders))), "")


@cache
def fixtures_that_start(folder: Path) -> frozenset[str]:
    """Fixtures of a folder's conftest and of what it imports; at the root also tests/fixtures/."""
    modules = set(folder.glob("conftest.py"))
    if folder == ROOT / "tests":
        modules |= set(folder.glob("fixtures/*.py"))
    modules |= {path for each in modules for name in imports(each) if (path := _ours(name))}
    starting = (each.read_text() for each in modules if starter_of(each))
    return frozenset(name for text in starting for name in _FIXTURE.findall(text))


def starter_of(module: Path) -> str:
    """What a module imports, itself or through others of ours, that starts programs."""
    seen: set[Path] = set()
    waiting = [module]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for name in imports(file):
            if any(f"{name}.".startswith(f"{each}.") for each in STARTERS):
                return name
            if path := _ours(name):
                waiting.append(path)
    return ""


@cache
def imports(file: Path) -> frozenset[str]:
    """Names of modules, and of what is imported from them, at the top level of a file."""
    return frozenset(_imports(file.read_text()))


def _imports(text: str) -> Iterator[str]:
    for module, package, several, one in _IMPORT.findall(text):
        yield module or package
        for name in re.findall(r"\w+", re.sub(r"#.*", "", several or one)):
            yield f"{package}.{name}"


@cache
def _ours(name: str) -> Path | None:
    if name.partition(".")[0] not in OURS:
        return None
    path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    return path if path.exists() else None
