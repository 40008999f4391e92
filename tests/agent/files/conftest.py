"""A store that keeps open files over the death of who had them, as `penstock up` does."""

from collections.abc import Iterator

import pytest

from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import Follow, JournalledFiles


@pytest.fixture
def store() -> Iterator[ProgramDescriptors]:
    with ProgramDescriptors(100) as store:
        yield store


@pytest.fixture
def files(follow: Follow, store: ProgramDescriptors) -> JournalledFiles:
    return follow("app.log", store=store)
