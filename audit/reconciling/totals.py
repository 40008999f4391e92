"""What faults add up to: one computation, from which everybody has his numbers.

What a topic lacks, what its hosts lack, and what its findings say are the same events: each fault
is counted once, and what was accepted is not. Of faults of which nobody knows how many events they
are, the number of faults is counted instead.
"""

from collections import defaultdict
from collections.abc import Iterable

from audit.verdicts import Finding, HostTotals, Kind, State, Totals, worst

_MISSING = frozenset({Kind.MISSING, Kind.UNPROVEN, Kind.UNNAMED})


def totals(findings: Iterable[Finding]) -> Totals:
    """Of those that nobody has accepted."""
    counts: dict[str, int] = defaultdict(int)
    states: list[State] = []
    for each in findings:
        if each.accepted:
            continue
        states.append(each.kind.state)
        if each.kind is Kind.LOST and 0 <= each.position < each.end_position:
            counts["lost_bytes"] += each.end_position - each.position
        if each.kind is Kind.UNKNOWN:
            counts["unknown"] += 1
        elif (events := _events(each)) >= 0:
            counts["missing" if each.kind in _MISSING else each.kind.value] += events
        else:
            counts["uncounted"] += 1
    return Totals(**counts, state=worst(states))


def by_host(findings: Iterable[Finding]) -> list[HostTotals]:
    """Those of which anything is wrong, by name. Together they are what the topic has."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for each in findings:
        if not each.accepted:
            found[each.host].append(each)
    return [HostTotals(host=host, totals=totals(some)) for host, some in sorted(found.items())]


def _events(finding: Finding) -> int:
    """As many as there are offsets, if that is all that is known."""
    return finding.events if finding.events >= 0 else finding.offsets
