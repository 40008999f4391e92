"""For pytest: tests that begin just before the end of something, each of them anew.

Modules see about the same time when they are collected, a little earlier: some of them take down
then what time it is.
"""

import os
from datetime import datetime, timedelta
from typing import Final

import pytest

from tests.elsewhen.clock import Clock, own_clock
from tests.elsewhen.moments import LAST
from tests.runner.scheduling import wanted

END: Final = "PENSTOCK_ELSEWHEN_END"
WITHOUT: Final = "PENSTOCK_ELSEWHEN_WITHOUT"
_EARLIER: Final = timedelta(seconds=30)


class JustBefore:
    """Puts this process's clock, and that of its children."""

    def __init__(self, clock: Clock, end: datetime) -> None:
        self._clock = clock
        self._end = end

    def pytest_pycollect_makemodule(self) -> None:
        self._clock.put_to((self._end - LAST - _EARLIER).timestamp())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._clock.put_to((self._end - LAST).timestamp())


def pytest_configure(config: pytest.Config) -> None:
    end, clock = os.environ.get(END), own_clock()
    if end and clock:
        config.pluginmanager.register(JustBefore(clock, datetime.fromisoformat(end)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get(WITHOUT):
        left = [item for item in items if item.get_closest_marker("slow") or wanted(item.path)]
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]
