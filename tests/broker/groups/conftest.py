"""A new group for each test."""

import pytest

from tests.broker.groups.group_scene import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()
