"""Topics in figures, for Prometheus: verdicts of hours, added up. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from audit.deleted import settled_state
from audit.judged_hours import HourVerdict
from audit.picture import Tier, TopicKey
from audit.verdicts import State


@dataclass(slots=True)
class TopicFigures:
    """One topic. What is wrong counts as long as it is kept, events for a day."""

    key: TopicKey
    events: dict[Tier, int] = field(default_factory=dict)
    missing: int = 0
    excess: int = 0
    findings: int = 0
    pending_windows: int = 0
    pending_since: int = -1
    severity: int = 0
    is_deleted: bool = False  # nothing is waited for any more

    def add(self, hour: HourVerdict, since: int) -> None:
        said = hour.judged
        if said.hour >= since:
            for tier, events in hour.events.items():
                self.events[tier] = self.events.get(tier, 0) + events
        self.missing += said.missing
        self.excess += said.excess
        self.findings += said.findings
        state = State(said.state)
        if self.is_deleted:
            self.severity = max(self.severity, settled_state(state).severity)
            return
        self.pending_windows += said.pending_windows
        self.severity = max(self.severity, state.severity)
        if hour.pending_since >= 0:
            before = self.pending_since
            self.pending_since = (
                min(before, hour.pending_since) if before >= 0 else (hour.pending_since)
            )


def figures_of(
    hours: Iterable[HourVerdict], *, since: int, is_deleted: Callable[[TopicKey], bool]
) -> Sequence[TopicFigures]:
    """By topic, in the order of their names."""
    found: dict[TopicKey, TopicFigures] = {}
    for hour in hours:
        key = hour.judged.key
        if key not in found:
            found[key] = TopicFigures(key, is_deleted=is_deleted(key))
        found[key].add(hour, since)
    return [found[key] for key in sorted(found)]
