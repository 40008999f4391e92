"""Which of several processes runs which file of tests (for pytest-xdist).

Spark, HDFS and Apache Kafka run once in each process whose tests asked for them, and cost as much
as dozens of tests until they are there and fast. So a file goes where what it wants runs already,
as long as there is other work for the other processes; after that, they start their own.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

ROOT: Final = Path(__file__).resolve().parent.parent

# How a file asks for what is worth waiting for. Who wants HDFS mostly wants Spark, too.
ASKS: Final = {
    "Spark": re.compile(r": (SparkSession|SparkCluster|RunningHdfs)\b"),
    "Apache Kafka": re.compile(r"\brunning_kafka\b"),
}


@cache
def wanted(file: str) -> str:
    """The most costly thing that a file of tests asks for; or nothing."""
    text = (ROOT / file).read_text()
    return next((name for name, asked in ASKS.items() if asked.search(text)), "")


def best(
    files: Iterable[str], here: set[str], elsewhere: set[str], wants: Callable[[str], str] = wanted
) -> str:
    """The first file that is at home here; else the first that is not at home elsewhere; else the
    first."""
    waiting = [(file, wants(file)) for file in files]
    at_home = [file for file, what in waiting if what in here]
    homeless = [file for file, what in waiting if what not in elsewhere]
    return [*at_home, *homeless, waiting[0][0]][0]


class ByWhatRuns(LoadFileScheduling):
    """Files of tests, each to the process where it is at home."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._running: dict[Any, set[str]] = {}

    def _assign_work_unit(self, node: Any) -> None:
        here = self._running.setdefault(node, set())
        file = best(self.workqueue, here, set().union(*self._running.values()))
        here |= {what for what in [wanted(file)] if what}
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByWhatRuns | None:
    return ByWhatRuns(config, log) if config.getvalue("dist") == "loadfile" else None
