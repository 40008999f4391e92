"""Files that are followed, each test in a folder of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import JournalledFiles, LogFolder


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogFolder]:
    folder = LogFolder(tmp_path)
    yield folder
    folder.close()


@pytest.fixture
def log(logs: LogFolder) -> Path:
    return logs.log


@pytest.fixture
def store() -> Iterator[ProgramDescriptors]:
    """It keeps open files over the death of who had them, as `penstock up` does."""
    with ProgramDescriptors(100) as store:
        yield store


@pytest.fixture
def files(logs: LogFolder, store: ProgramDescriptors) -> JournalledFiles:
    return logs.follow("app.log", store=store)
