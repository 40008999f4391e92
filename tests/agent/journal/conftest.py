"""Journals are closed when a test is over."""

from collections.abc import Iterator

import pytest

from tests.agent.journal.samples import close_journals


@pytest.fixture(autouse=True)
def _journals() -> Iterator[None]:
    yield
    close_journals()
