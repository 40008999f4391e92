"""For pytest: tests that begin just before the end of something, each of them anew.

Modules see about the same time when they are collected, a little earlier: some of them take down
then what time it is.
"""

import os
from datetime import datetime, timedelta
from typing import Final

import pytest

from tests.elsewhen.clock import Clock, own_clock
from tests.elsewhen.moments import LAST, LEFT_OUT
from tests.reaching import deselect, reaches

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
        deselect(config, items, _is_left_out)


def _is_left_out(item: pytest.Item) -> bool:
    slow = item.get_closest_marker("slow") is not None
    return slow or reaches(item, {each.starts for each in LEFT_OUT})
