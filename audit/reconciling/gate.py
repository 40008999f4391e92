"""The gate of an hour: whether agents and brokers have finished the hour and lack none of its
events. Loaders check it before they call an hour complete. Files are judged only if a loader
rebuilt the hour with fewer events than before, because only the audit knows whether operators have
accepted all that is missing; otherwise the loader itself knows what it has read.

The answer stays the same while it waits for the same, so it has no counts that change.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from audit.reconciling import words
from audit.reconciling.picture import Tier, TierKind, TopicPicture
from audit.reconciling.topic_verdict import TopicVerdict
from audit.reconciling.verdict import reconcile

MOST_NAMES: Final = 1_000
_FEW: Final = 3  # hosts that are named in words
_GATING: Final = (TierKind.AGENT, TierKind.ORIGIN, TierKind.MIRROR, TierKind.BROKER)


class Gate(NamedTuple):
    """The verdict of the gate. `by`: the proof that the hour is complete; `missing`: what the hour
    waits for; `soon`: whether it waits only for reports that may be in transit."""

    complete: bool
    by: str = ""
    missing: str = ""
    names: tuple[str, ...] = ()  # of hosts
    soon: bool = False


def hour_gate(picture: TopicPicture, destination: str = "", rebuilt: int = 0) -> Gate:
    """Judges the hour that the picture covers, including its files at a destination if it was
    rebuilt there at this time."""
    return gate_of(picture, verdict_for_gate(picture, destination), destination, rebuilt)


def verdict_for_gate(picture: TopicPicture, destination: str = "") -> TopicVerdict | None:
    """The verdict about agents and brokers, and about files at a destination. None if it could not
    count, because the hour has not ended, or the origin of a copy is unknown."""
    if picture.now < picture.to_time or picture.unjoined:
        return None
    tiers = _judged_tiers(picture, destination)
    kinds = {tier.kind for tier in tiers}
    return reconcile(
        replace(
            picture,
            tiers=tiers,
            file_faults=(),
            holes=[hole for hole in picture.holes if hole.tier in kinds.union(_GATING)],
        )
    )


def _judged_tiers(picture: TopicPicture, destination: str) -> tuple[Tier, ...]:
    files = Tier(TierKind.HDFS, destination)
    return tuple(tier for tier in picture.tiers if tier.kind in _GATING or tier == files)


def gate_of(
    picture: TopicPicture, verdict: TopicVerdict | None, destination: str = "", rebuilt: int = 0
) -> Gate:
    """Like `hour_gate`, by the verdict for it."""
    if picture.now < picture.to_time:
        return Gate(complete=False, missing="the end of the hour")
    if picture.unjoined:
        return Gate(complete=False, missing=f"the origin of this copy: {picture.unjoined}")
    files = Tier(TierKind.HDFS, destination)
    if destination and (files not in picture.tiers or picture.now < rebuilt + picture.grace_millis):
        return _IN_TRANSIT
    tiers = _judged_tiers(picture, destination)
    if verdict is None or not any(tier.kind is TierKind.AGENT for tier in tiers):
        return Gate(complete=False, missing=f"agents: none ships to {_shipped_to(picture)}")
    return _waiting(verdict) or _faulty(verdict) or Gate(complete=True, by=_by(tiers, verdict))


_IN_TRANSIT: Final = Gate(
    complete=False, missing="the ledger, whose entries may still arrive", soon=True
)


def _shipped_to(picture: TopicPicture) -> str:
    origin = picture.origin
    return f"{origin.cluster}/{origin.topic}" if origin else picture.key.topic


def _by(tiers: Sequence[Tier], verdict: TopicVerdict) -> str:
    if any(tier.kind is TierKind.HDFS for tier in tiers):
        accepted = verdict.totals.accepted
        exceptions = f", except for {words.accepted_kinds(accepted)}" if accepted else ""
        return f"agents, brokers and files{exceptions}"
    if any(tier.kind in {TierKind.ORIGIN, TierKind.MIRROR} for tier in tiers):
        return "agents, brokers and the copy"
    return "agents and brokers" if len(tiers) > 1 else "agents"


def _waiting(verdict: TopicVerdict) -> Gate | None:
    hosts = sorted({wait.host for wait in verdict.waits if wait.on == TierKind.AGENT})
    if hosts:
        return Gate(
            complete=False, missing=f"agents on {_few(hosts)}", names=tuple(hosts[:MOST_NAMES])
        )
    awaited_tiers = {wait.on for wait in verdict.waits}
    if TierKind.ORIGIN in awaited_tiers and verdict.origin:
        subject = f"the brokers of {verdict.origin.cluster}"
        return Gate(complete=False, missing=f"{subject}, which have not counted all of it")
    if awaited_tiers & {TierKind.BROKER, TierKind.MIRROR} and verdict.origin:
        return Gate(complete=False, missing="the copy, which does not have all of it")
    if TierKind.BROKER in awaited_tiers:
        return Gate(complete=False, missing="the brokers, which have not counted all of it")
    if TierKind.HDFS in awaited_tiers:
        missing = "the load, which has not reported all of it"
        return Gate(complete=False, missing=missing, soon=True)
    if verdict.waits:
        return _IN_TRANSIT
    return None


def _faulty(verdict: TopicVerdict) -> Gate | None:
    """Returns what holds the hour up. Faults without a time are for operators, and hold up none."""
    findings = [
        finding for finding in verdict.findings if finding.is_open and finding.from_time >= 0
    ]
    if not findings:
        return None
    hosts = sorted({finding.host for finding in findings if finding.host})
    suffix = f", and {len(findings) - 1:,} more" if len(findings) > 1 else ""
    return Gate(
        complete=False,
        missing=f"a fault to be corrected or accepted: {findings[0].words}{suffix}",
        names=tuple(hosts[:MOST_NAMES]),
    )


def _few(hosts: Sequence[str]) -> str:
    names = ", ".join(hosts[:_FEW])
    return f"{names} and {len(hosts) - _FEW} more" if len(hosts) > _FEW else names
