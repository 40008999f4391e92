"""Files that are followed, each test in a folder of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.file_inputs import FileInput
from tests.agent.files.journalled_files import Follow, JournalledFiles


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    """Patterns are below the test's folder; options are those of the input, or of following."""
    started = []

    def start(*patterns: str, **options: object) -> JournalledFiles:
        paths = tuple(str(tmp_path / each) for each in patterns or ("app.log*",))
        names = {"exclude", "start", "ignore_older"} & options.keys()
        own = {name: options.pop(name) for name in names}
        of = FileInput("in", "t", paths, **own)  # type: ignore[arg-type]
        started.append(JournalledFiles(of, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for each in started:
        each.close()
