"""Whether what was read of a queue is written down, over the death of who read it."""

import os
from pathlib import Path

import pytest

from agent.files.watching import Unsaid


@pytest.mark.parametrize("is_said", [False, True])
def test_it_outlives_who_set_it(is_said: bool) -> None:
    first = Unsaid()
    assert first.was_unsaid, "of a queue that is left nobody knows what was read"
    if is_said:
        first.clear()
    kept = os.dup(first.fd)
    first.close()
    second = Unsaid(kept)
    assert (second.goes_on, second.was_unsaid) == (True, not is_said)
    second.set()
    assert second.was_unsaid is not is_said, "that is how it was left"
    assert second.is_set
    second.close()


def test_what_was_left_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    unsaid = Unsaid(os.open(tmp_path / "empty", os.O_RDWR))
    assert (unsaid.goes_on, unsaid.was_unsaid) == (False, True)
    unsaid.clear()
    assert not unsaid.is_set
    unsaid.close()
