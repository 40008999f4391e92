"""What the collector looks at, in a process of its own: it is a setting of the whole process."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent.parent

_STAYS = """
import gc
from broker.program import look_at_what_is_new

look_at_what_is_new()
before = gc.get_freeze_count()
stays = [[number] for number in range(50_000)]
gc.collect()
assert gc.get_freeze_count() >= before + 50_000, "what a full collection left is set aside"
assert len(gc.get_objects()) < 50_000, "and is not looked at by the next"
"""

_BECOMES_GARBAGE = """
import gc
import weakref
from broker.program import look_at_what_is_new

class Thing:
    pass

look_at_what_is_new()
thing = Thing()
gc.collect()
thing.itself = thing
gone = weakref.ref(thing)
del thing
gc.collect()
assert gone() is not None, "it was set aside"
stays = [[number] for number in range(2 * gc.get_freeze_count())]
for _ in range(20):
    gc.collect()
assert gone() is None, "nobody ever looked at it again"
"""


def run(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=REPOSITORY, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.not_quick("makes very many objects")
def test_what_stays_is_looked_at_once() -> None:
    run(_STAYS)


@pytest.mark.not_quick("makes very many objects")
def test_what_became_garbage_later_is_found_when_there_is_twice_as_much() -> None:
    run(_BECOMES_GARBAGE)
