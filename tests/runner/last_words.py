"""What servers wrote last while a test failed, as sections of its report: the end of every output
that has grown since the test began, the latest first. A test that waited in vain says for what it
waited; why that did not come only the servers know."""

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from harness.processes import server_process

_LINES: Final = 40
_BYTES: Final = 8 * 1024  # of one output
_OUTPUTS: Final = 8

_BEFORE: Final = pytest.StashKey[Mapping[Path, int]]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Before fixtures are set up, which may start servers, too."""
    item.stash[_BEFORE] = {path: stat.st_size for path, stat in _outputs().items()}
    return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Nearest to the report, so that whoever looks through it sees these too."""
    report = yield
    if report.failed:
        report.sections += _last_words(item.stash[_BEFORE])
    return report


def _outputs() -> dict[Path, os.stat_result]:
    found = {}
    for path in tuple(server_process.OUTPUTS):
        with suppress(OSError):  # a test may have removed it
            found[path] = path.stat()
    return found


def _last_words(before: Mapping[Path, int]) -> Iterator[tuple[str, str]]:
    outputs = _outputs()
    grown = [path for path, stat in outputs.items() if stat.st_size > before.get(path, 0)]
    grown.sort(key=lambda path: outputs[path].st_mtime_ns, reverse=True)
    for path in grown[:_OUTPUTS]:
        yield f"Last words of {_name(path)}", _end(path, before.get(path, 0))
    if left := grown[_OUTPUTS:]:
        yield "Last words of others are left out", "\n".join(map(_name, left))


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _end(path: Path, begin: int) -> str:
    """What was written from there on, or the last lines of it."""
    with path.open("rb") as output:
        end = output.seek(0, os.SEEK_END)
        begin = output.seek(max(begin, end - _BYTES))
        written = output.read(end - begin).decode(errors="replace")
    return "\n".join(written.splitlines()[-_LINES:])
