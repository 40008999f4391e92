"""The audit's judgement about an hour that is to be certified: whether agents, brokers and a
loader's files have all of it, and the counts and exceptions that the certificate states. Pure.

A certificate is about files, so the hour's files are judged, too, by what the loader has reported
of them: an hour that a loader may already call complete (gate.py) may have to wait a moment until
that has been read.
"""

from collections.abc import Iterable

import msgspec

from audit.reconciling.authors import with_author
from audit.reconciling.findings import FaultKind, Finding
from audit.reconciling.gate import gate_of, verdict_for_gate
from audit.reconciling.picture import Acceptance, TierKind, TopicPicture
from audit.reconciling.topic_verdict import TopicVerdict
from ledger.hour_certificates import Acceptance as CertifiedAcceptance
from ledger.hour_certificates import Exceptions

_REASON = "accepted"


class Uncertified(Exception):
    """The hour gets no certificate; the message says why."""

    def __init__(self, why: str, *, soon: bool = False) -> None:
        super().__init__(why)
        self.soon = soon  # whether the reason may be gone in a few seconds


class CertifiedHour(msgspec.Struct, frozen=True):
    """What the audit states about a complete hour."""

    counts: dict[str, int]
    exceptions: Exceptions


def certified_hour(
    picture: TopicPicture, destination: str, *, rows: int, rebuilt: int = 0, altered: int = 0
) -> CertifiedHour:
    """Judges the hour that the picture covers, with its files at a destination, which have this
    number of rows by its loader. Raises Uncertified."""
    verdict = verdict_for_gate(picture, destination)
    gate = gate_of(picture, verdict, destination, rebuilt)
    if not gate.complete or verdict is None:
        raise Uncertified(gate.missing, soon=gate.soon)
    counts = {
        tier.kind.value: sum(window.sums[place].events for window in verdict.windows)
        for place, tier in enumerate(verdict.tiers)
    }
    landed_rows = counts.get(TierKind.HDFS.value, 0)
    if landed_rows != rows:
        raise Uncertified(
            f"the loader has {rows:,} rows, and has reported {landed_rows:,} in the ledger",
            soon=landed_rows < rows,
        )
    return CertifiedHour(counts, _exceptions(picture, verdict, altered))


def _exceptions(picture: TopicPicture, verdict: TopicVerdict, altered: int) -> Exceptions:
    windows = verdict.windows
    return Exceptions(
        filtered=sum(window.filtered for window in windows),
        dead_lettered=sum(window.dead for window in windows),
        lost=sum(max(window.lost, 0) for window in windows),
        duplicates=sum(window.duplicates for window in windows),
        altered=altered,
        accepted=tuple(_accepted(verdict.findings, picture.accepted)),
    )


def _accepted(
    findings: Iterable[Finding], acceptances: Iterable[Acceptance]
) -> Iterable[CertifiedAcceptance]:
    """The accepted findings, by kind and acceptance."""
    by_words = {
        with_author(known.reason or _REASON, known.operator, known.time): known
        for known in acceptances
    }
    counts: dict[tuple[FaultKind, str], int] = {}
    for finding in findings:
        if finding.accepted:
            key = finding.kind, finding.accepted
            known_count = counts.get(key, 0)
            is_counted = finding.count >= 0 and known_count >= 0
            counts[key] = known_count + finding.count if is_counted else -1
    for (kind, words), count in sorted(counts.items()):
        acceptance = by_words.get(words)
        yield CertifiedAcceptance(
            kind=kind.value,
            count=count,
            operator="" if acceptance is None else acceptance.operator,
            reason=words if acceptance is None else acceptance.reason or _REASON,
        )
