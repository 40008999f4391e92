"""What is measured, what is wanted, and how samples of several rounds become one figure.

Values only: nothing here runs, prints or waits. What is reported of a figure is the median of the
rounds, with the smallest and the largest value beside it.
"""

import statistics
from collections.abc import Mapping, Sequence

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """A quantity with its unit in its name, and how many decimals are worth printing."""

    name: str
    decimals: int = 0
    more_is_better: bool = False

    def text(self, value: float) -> str:
        return f"{value:,.{self.decimals}f}"


RATE = Figure("messages/s", more_is_better=True)
MEGABYTES = Figure("MB/s", more_is_better=True)
CPU_PER_GB = Figure("broker CPU-s/GB", 2)
BROKER_CORES = Figure("broker cores in use", 2)
CLIENT_CORES = Figure("client cores in use", 2)
PEAK_MEMORY = Figure("broker peak RSS, MB")
PROPORTIONAL_MEMORY = Figure("broker Pss, MB")

Sample = Mapping[Figure, float]


class NotMeasured(Exception):
    """For want of a tool, or of power over a server: no failure of the server."""


class Goal(msgspec.Struct, frozen=True):
    """What Penstock has to show in one figure of a case."""

    figure: Figure
    at_least: float | None = None
    at_most: float | None = None
    ahead: bool = False  # of the peer, where there is one
    times: float = 1.0  # how far ahead: so many times the peer's figure

    @property
    def text(self) -> str:
        wanted = []
        if self.at_least is not None:
            wanted.append(f"≥ {self.at_least:,.9g}")
        if self.at_most is not None:
            wanted.append(f"≤ {self.at_most:,.9g}")
        if self.ahead:
            wanted.append("ahead" if self.times == 1 else f"{self.times:g} times the peer")
        return ", ".join(wanted)

    def met(self, penstock: float, peer: float | None) -> bool | None:
        """None: cannot be said, because the peer is missing."""
        if self.at_least is not None and penstock < self.at_least:
            return False
        if self.at_most is not None and penstock > self.at_most:
            return False
        if not self.ahead:
            return True
        if peer is None:
            return None
        wanted = peer * self.times
        return penstock > wanted if self.figure.more_is_better else penstock < wanted


class Outcome(msgspec.Struct):
    """One case on one broker: a sample a round, or why there is none."""

    samples: list[Sample] = []
    failure: str | None = None
    skipped: bool = False  # NotMeasured: no failure of a broker

    def summary(self, figure: Figure) -> "Summary | None":
        values = [sample[figure] for sample in self.samples if figure in sample]
        return Summary.of(values) if values else None


class Summary(msgspec.Struct, frozen=True):
    median: float
    smallest: float
    largest: float

    @staticmethod
    def of(values: Sequence[float]) -> "Summary":
        return Summary(statistics.median(values), min(values), max(values))
