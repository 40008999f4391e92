"""Figures, samples and goals, and the median over several rounds.

Values only: nothing here runs, prints or waits. A reported figure is the median of the rounds with
the smallest and the largest value.
"""

import statistics
from collections.abc import Mapping, Sequence

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """A quantity: a name with its unit, and the number of decimals to print."""

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
    """A tool is missing, or the server cannot be controlled; not a failure of the server."""


class Goal(msgspec.Struct, frozen=True):
    """A target for Penstock in one figure of a case."""

    figure: Figure
    at_least: float | None = None
    at_most: float | None = None
    ahead: bool = False  # better than the peer, if there is one
    times: float = 1.0  # the factor by which it has to be ahead

    @property
    def text(self) -> str:
        conditions = []
        if self.at_least is not None:
            conditions.append(f"≥ {self.at_least:,.9g}")
        if self.at_most is not None:
            conditions.append(f"≤ {self.at_most:,.9g}")
        if self.ahead:
            conditions.append("ahead" if self.times == 1 else f"{self.times:g} times the peer")
        return ", ".join(conditions)

    def met(self, penstock: float, peer: float | None) -> bool | None:
        """Whether the goal is met; None if that depends on a missing peer."""
        if self.at_least is not None and penstock < self.at_least:
            return False
        if self.at_most is not None and penstock > self.at_most:
            return False
        if not self.ahead:
            return True
        if peer is None:
            return None
        threshold = peer * self.times
        return penstock > threshold if self.figure.more_is_better else penstock < threshold


class Outcome(msgspec.Struct):
    """The outcome of one case on one broker: a sample per round, or the reason why there are
    none."""

    samples: list[Sample] = []
    failure: str | None = None
    skipped: bool = False  # NotMeasured, which is not a failure of the broker

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
