"""What is said of each window. Most are as they should be, and cost little."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from audit.picture import Tier, TierKind, Window
from audit.reconciling.faults import Fault
from audit.reconciling.steps import sums_at
from audit.reconciling.tally import Tallied
from audit.verdicts import Finding, Kind, State, WindowVerdict, worst


def window_verdicts(
    tiers: Sequence[Tier],
    windows: Sequence[Window],
    awaited_in: Mapping[str, Collection[int]],
    tallied: Sequence[Tallied],
    faults: Iterable[Fault],
) -> list[WindowVerdict]:
    faults_of: dict[int, list[Finding]] = {}
    for fault in faults:
        for number in set(fault.windows):
            faults_of.setdefault(number, []).append(fault.finding)
    waits_of: dict[int, set[str]] = {}
    for who, numbers in awaited_in.items():
        for number in numbers:
            waits_of.setdefault(number, set()).add(who)
    for each in tallied:
        for number, awaited in each.waits.items():
            waits_of.setdefault(number, set()).update(awaited)
    files = [number for number, tier in enumerate(tiers) if tier.kind is TierKind.HDFS]
    found: list[WindowVerdict] = []
    for number, window in enumerate(windows):
        sums = [sums_at(window, tier) for tier in tiers]
        late = duplicates = dead = 0
        for file in files:
            landed = sums[file]
            late += landed.late
            duplicates += landed.duplicates
            dead += landed.dead
        some = faults_of.get(number, ())
        awaited = waits_of.get(number, set())
        missing = pending = excess = unclaimed = elsewhere = 0
        for each in tallied:
            if (step := each.steps.get(number)) is not None:
                missing += step.missing
                pending += step.pending
                excess += step.excess
                unclaimed += step.unclaimed
                elsewhere += step.elsewhere
        found.append(
            WindowVerdict(
                start=window.start,
                length=window.length,
                state=_state(some, awaited),
                sums=sums,
                missing=missing,
                pending=pending,
                excess=excess,
                unclaimed=unclaimed,
                elsewhere=elsewhere,
                changed=any(each.kind is Kind.CHANGED for each in some) if some else False,
                late=late,
                duplicates=duplicates,
                dead=window.dead + dead,
                filtered=window.filtered,
                lost=window.lost_events,
                waits=sorted(awaited),
                accepted=all(each.accepted for each in some) if some else False,
            )
        )
    return found


def _state(findings: Collection[Finding], awaited: Collection[str]) -> State:
    if not findings and not awaited:
        return State.COMPLETE
    states = [each.kind.state for each in findings if not each.accepted]
    if awaited:
        states.append(State.PENDING)
    return worst(states)
