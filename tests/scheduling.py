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

# How a file of tests asks for what is worth waiting for.
ASKS: Final = {
    "spark": re.compile(r"\bspark: SparkSession\b"),
    "hdfs": re.compile(r"\bhdfs: RunningHdfs\b"),
    "Apache Kafka": re.compile(r"\brunning_kafka\b"),
}

Wanted = frozenset[str]


@cache
def wanted(file: str) -> Wanted:
    """What of that a file of tests asks for."""
    text = (ROOT / file).read_text()
    return frozenset(name for name, asked in ASKS.items() if asked.search(text))


def best(
    files: Iterable[str], here: Wanted, elsewhere: Wanted, wants: Callable[[str], Wanted] = wanted
) -> str:
    """The first file for which all is running here, and that needs it; else the first for which
    nothing runs elsewhere; else the first."""
    waiting = [(file, wants(file)) for file in files]
    at_home = [file for file, asked in waiting if asked and asked <= here]
    welcome = [file for file, asked in waiting if not asked & (elsewhere - here)]
    return [*at_home, *welcome, waiting[0][0]][0]


class ByWhatRuns(LoadFileScheduling):
    """Files of tests, each to the process where it is at home."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._running: dict[Any, Wanted] = {}

    def _assign_work_unit(self, node: Any) -> None:
        here = self._running.get(node, Wanted())
        elsewhere = Wanted().union(*self._running.values()) - here
        file = best(self.workqueue, here, elsewhere)
        self._running[node] = here | wanted(file)
        self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByWhatRuns | None:
    return ByWhatRuns(config, log) if config.getvalue("dist") == "loadfile" else None
