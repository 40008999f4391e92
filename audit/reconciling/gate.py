"""Whether agents and brokers are done with a stretch of time, and nothing of it is missing there:
what a loader asks before it calls an hour complete. What lies in files is not looked at; whoever
asks knows himself what he has read.

What is said is the same as long as the same is waited for: there are no counts of what goes on.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from audit.api.verdicts import TopicVerdict
from audit.picture import Tier, TierKind, TopicPicture
from audit.reconciling.verdict import reconcile

MOST_NAMES: Final = 1_000
_FEW: Final = 3  # hosts that are named in words
_GATING: Final = (TierKind.AGENT, TierKind.ORIGIN, TierKind.MIRROR, TierKind.BROKER)


class Gate(NamedTuple):
    """`by` says how it is known that it is complete, `missing` for what it waits."""

    complete: bool
    by: str = ""
    missing: str = ""
    names: tuple[str, ...] = ()  # of hosts


def hour_gate(picture: TopicPicture) -> Gate:
    """Of the time of this picture."""
    if picture.now < picture.to_time:
        return Gate(complete=False, missing="the hour, which is not over")
    if picture.unjoined:
        return Gate(complete=False, missing=f"what this is a copy of: {picture.unjoined}")
    tiers = tuple(tier for tier in picture.tiers if tier.kind in _GATING)
    if not any(tier.kind is TierKind.AGENT for tier in tiers):
        return Gate(complete=False, missing=f"agents: none ships to {_shipped_to(picture)}")
    verdict = reconcile(
        replace(
            picture,
            tiers=tiers,
            file_faults=(),
            holes=[each for each in picture.holes if each.tier in _GATING],
        )
    )
    return _waiting(verdict) or _faulty(verdict) or Gate(complete=True, by=_by(tiers))


def _shipped_to(picture: TopicPicture) -> str:
    origin = picture.origin
    return f"{origin.cluster}/{origin.topic}" if origin else picture.key.topic


def _by(tiers: Sequence[Tier]) -> str:
    if any(tier.kind in {TierKind.ORIGIN, TierKind.MIRROR} for tier in tiers):
        return "agents, brokers and the copy"
    return "agents and brokers" if len(tiers) > 1 else "agents"


def _waiting(verdict: TopicVerdict) -> Gate | None:
    hosts = sorted({each.host for each in verdict.waits if each.on == TierKind.AGENT})
    if hosts:
        return Gate(
            complete=False, missing=f"agents on {_few(hosts)}", names=tuple(hosts[:MOST_NAMES])
        )
    waited = {each.on for each in verdict.waits}
    if TierKind.ORIGIN in waited and verdict.origin:
        who = f"the brokers of {verdict.origin.cluster}"
        return Gate(complete=False, missing=f"{who}, which have not counted it all")
    if waited & {TierKind.BROKER, TierKind.MIRROR} and verdict.origin:
        return Gate(complete=False, missing="the copy, in which not all of it is")
    if TierKind.BROKER in waited:
        return Gate(complete=False, missing="the brokers, which have not counted it all")
    if verdict.waits:
        return Gate(complete=False, missing="the ledger, of which entries may still come")
    return None


def _faulty(verdict: TopicVerdict) -> Gate | None:
    """What may be about any time at all is for people to look at: it holds up no hour."""
    findings = [each for each in verdict.findings if not each.accepted and each.from_time >= 0]
    if not findings:
        return None
    hosts = sorted({each.host for each in findings if each.host})
    more = f", and {len(findings) - 1:,} more" if len(findings) > 1 else ""
    return Gate(
        complete=False,
        missing=f"a fault to be put right or accepted: {findings[0].words}{more}",
        names=tuple(hosts[:MOST_NAMES]),
    )


def _few(hosts: Sequence[str]) -> str:
    said = ", ".join(hosts[:_FEW])
    return f"{said} and {len(hosts) - _FEW} more" if len(hosts) > _FEW else said
