"""A fault while it is being judged: a finding without words, and what is needed to weigh it."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from audit.reconciling.steps import Pair
from audit.verdicts import Finding, Kind


@dataclass(slots=True)
class Fault:
    """`windows` are the numbers of those that it is a fault of. Where `exact` is not set, the bytes
    and events named are those around what is meant."""

    finding: Finding
    pair: Pair | None = None  # on the way between which tiers
    exact: bool = True
    count: int = 0  # events, as many as there can be
    named: int = 0  # entries of a journal, with their first seq in the finding
    reason: str = ""
    harmless: str = ""  # why it needs nobody to accept it
    since: int = -1  # when it was written, or the log lost it; -1: not known
    traces: str = ""  # of a time in which nobody watched
    windows: list[int] = field(default_factory=list)

    def doubt(self, kind: Kind, reason: str) -> None:
        """It may be so that only a statement is missing."""
        self.finding = replace(self.finding, kind=kind)
        self.reason = reason

    @property
    def has_time(self) -> bool:
        return self.finding.from_time >= 0
