"""A store in a folder of its own."""

from pathlib import Path

import pytest

from loader.store.local import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(f"file://{tmp_path}")
