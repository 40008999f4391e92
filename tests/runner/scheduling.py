"""Which of several processes runs which file of tests.

Spark, HDFS and Apache Kafka run once in each process whose tests asked for them, and cost as much
as dozens of tests until they are there and fast. So a file goes where what it wants runs already,
as long as there is other work for the other processes; after that, they start their own.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]

# How a file asks for what is worth waiting for. Who wants HDFS mostly wants Spark, too.
ASKS: Final = {
    "Spark": re.compile(r": (SparkSession|SparkCluster|RunningHdfs|RunningYarn)\b"),
    "Apache Kafka": re.compile(r"\brunning_kafka\b"),
}


class Ticket(NamedTuple):
    """Tests of one file that a process runs together: from where to where."""

    file: Path
    first: int
    end: int


@cache
def wanted(file: Path) -> str:
    """The most costly thing that a file of tests asks for; or nothing."""
    text = (ROOT / file).read_text()
    return next((name for name, asked in ASKS.items() if asked.search(text)), "")


def best(
    waiting: Sequence[Ticket],
    here: set[str],
    elsewhere: set[str],
    wants: Callable[[Path], str] = wanted,
) -> Ticket:
    """The first whose file is at home here; else the first that is not at home elsewhere; else the
    first."""
    at_home = (each for each in waiting if here and wants(each.file) in here)
    homeless = (each for each in waiting if wants(each.file) not in elsewhere)
    return next(at_home, None) or next(homeless, waiting[0])


class Waiting:
    """What nobody has begun yet."""

    def __init__(self, tickets: Sequence[Ticket]) -> None:
        self._tickets = list(tickets)
        self._running: dict[str, set[str]] = defaultdict(set)

    def take(self, process: str) -> Ticket | None:
        """What it runs next; nothing, if all has been given away."""
        if not self._tickets:
            return None
        here = self._running[process]
        ticket = best(self._tickets, here, set().union(*self._running.values()))
        here |= {what for what in [wanted(ticket.file)] if what}
        self._tickets.remove(ticket)
        return ticket

    def clear(self) -> None:
        self._tickets.clear()
