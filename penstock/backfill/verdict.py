"""The verdict on the archives of an input, derived from what the audit's ledger has of their
sources: what the agent has reported, and what brokers, mirrors and loaders have counted. Pure.

An archive has arrived if its agent has reported its end, and every later tier has all of its
events. Which archives there are, and which are still to be read, is the agent's plan. An archive
whose lines were all read from other files is no source, and is only counted here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from agent.files.backfill_plan import ArchiveState, ArchiveStatus, BackfillPlan
from audit.api.answers import FailingLoad, SourceRow, Sources
from audit.cures.fault_cures import Cure, advice
from audit.reconciling.findings import Finding, State, worst
from audit.reconciling.picture import TierKind
from audit.reconciling.topic_verdict import Wait
from penstock.report.words import Count, finding_words, size, wait_words

MOST_INCOMPLETE: Final = 1_000
_FEW: Final = 5  # ranges of events
_LATE_MILLIS: Final = 600_000  # an agent's reports are in the ledger much earlier


class ArchiveVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """An archive that has not arrived, or lacks something: why, in sentences."""

    path: str
    source: str
    state: State
    words: tuple[str, ...]
    waits_for: tuple[str, ...] = ()  # agent, broker, mirror, hdfs, ledger


class BackfillVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on the archives of an input. `events` and the following numbers are of the
    archives that the ledger has."""

    state: State
    is_final: bool  # waiting does not change it
    archives: int  # that the verdict is about, those to be read included
    arrived: int
    to_read: int
    events: int
    filtered: int
    dead: int
    destinations: tuple[str, ...]  # roots of landed files; without any, the log is the last place
    not_loaded: str = ""  # why the topic cannot be loaded
    from_other_files: int = 0  # archives whose lines were read from other files
    skipped: int = 0
    incomplete_total: int = 0
    incomplete: tuple[ArchiveVerdict, ...] = ()  # the worst first


class SourcesInLedger(msgspec.Struct, frozen=True):
    """What the audit has answered about the sources of archives."""

    as_of: int
    rows: Mapping[str, SourceRow]
    destinations: tuple[str, ...]
    failing_loads: tuple[FailingLoad, ...]

    @classmethod
    def of(cls, answers: Sequence[Sources]) -> "SourcesInLedger":
        return cls(
            min((answer.as_of for answer in answers), default=0),
            {row.source: row for answer in answers for row in answer.items},
            tuple(sorted({root for answer in answers for root in answer.destinations})),
            tuple(answers[0].failing_loads) if answers else (),
        )

    def doubtful(self) -> list[SourceRow]:
        """The files that may have faults, whose findings decide."""
        return [row for row in self.rows.values() if _is_doubtful(row)]


def sources_of(plan: BackfillPlan) -> list[str]:
    """The sources of the archives that were read."""
    return [archive.source for archive in _read(plan)]


def _read(plan: BackfillPlan) -> list[ArchiveStatus]:
    read = [archive for archive in plan.archives if archive.state is ArchiveState.READ]
    return read + [
        ArchiveStatus(
            path="",
            size=-1,
            millis=-1,
            state=ArchiveState.READ,
            source=source,
            events=-1,
            read_millis=read_millis,
        )
        for source, read_millis in plan.unlisted
    ]


def judge(
    plan: BackfillPlan, ledger: SourcesInLedger, findings: Mapping[str, Sequence[Finding]]
) -> BackfillVerdict:
    """Judges the archives of an input. `findings`: of doubtful sources, accepted ones included."""
    verdicts = [
        verdict
        for archive in _read(plan)
        if (verdict := _judged(archive, ledger, findings.get(archive.source, ())))
    ]
    to_read = plan.total(ArchiveState.READING, ArchiveState.WAITS, ArchiveState.NEXT)[0]
    incomplete = sorted(
        (verdict for verdict in verdicts if verdict.state is not State.COMPLETE or verdict.words),
        key=lambda verdict: (-verdict.state.severity, verdict.path),
    )
    rows = [ledger.rows[verdict.source] for verdict in verdicts if verdict.source in ledger.rows]
    states = [verdict.state for verdict in verdicts] + [State.PENDING] * bool(to_read)
    if rows and any(load.destination not in ledger.destinations for load in ledger.failing_loads):
        states.append(State.PENDING)  # at a root that was never loaded, nothing is expected yet
    state = worst(states) if states else State.EMPTY
    is_pending = State.PENDING in states
    not_loaded = "; ".join(load.reason for load in ledger.failing_loads) if is_pending else ""
    is_loader_alone = not to_read and all(
        on == TierKind.HDFS for verdict in verdicts for on in verdict.waits_for
    )
    return BackfillVerdict(
        state=state,
        is_final=not is_pending or (bool(not_loaded) and is_loader_alone),
        archives=len(verdicts) + to_read,
        arrived=sum(verdict.state is State.COMPLETE for verdict in verdicts),
        to_read=to_read,
        events=sum(last - first for row in rows for first, last in row.shipped),
        filtered=sum(row.filtered for row in rows),
        dead=sum(row.dead for row in rows),
        destinations=ledger.destinations,
        not_loaded=not_loaded,
        from_other_files=plan.total(ArchiveState.READ)[0] - len(verdicts),
        skipped=plan.total(ArchiveState.SKIPPED)[0],
        incomplete_total=len(incomplete),
        incomplete=tuple(incomplete[:MOST_INCOMPLETE]),
    )


def _judged(
    archive: ArchiveStatus, ledger: SourcesInLedger, findings: Sequence[Finding]
) -> ArchiveVerdict | None:
    """The verdict on one archive that was read; None if it is no source of its own."""
    row = ledger.rows.get(archive.source)
    if row is None:
        return _absent(archive, ledger.as_of) if archive.events or archive.why else None
    open_findings = [finding for finding in findings if finding.is_open]
    words = list(_finding_sentences(findings))
    states = [finding.kind.state for finding in open_findings]
    waits = list(row.waits)
    if row.events >= 0 and row.size < archive.position:
        waits.append(Wait(on=TierKind.AGENT, words="its end is not reported yet"))
    if _is_doubtful(row) and not findings and not waits:
        states.append(State.UNKNOWN)
        words.append(_doubt(row))
    if waits:
        states.append(State.PENDING)
    return ArchiveVerdict(
        path=row.path or archive.path,
        source=archive.source,
        state=worst(states),
        words=(*words, *map(wait_words, waits)),
        waits_for=tuple(wait.on for wait in waits),
    )


def _absent(archive: ArchiveStatus, as_of: int) -> ArchiveVerdict:
    """The verdict on an archive that the ledger does not have yet, or not any more."""
    wait = Wait(on="ledger", words="its source has not been reported yet")
    verdict = ArchiveVerdict(
        path=archive.path,
        source=archive.source,
        state=State.PENDING,
        words=(wait_words(wait),),
        waits_for=(wait.on,),
    )
    if as_of - archive.read_millis <= _LATE_MILLIS:
        return verdict
    words = "the audit does not have its source: it keeps what was shipped for its `retention`"
    return replace(verdict, state=State.UNKNOWN, words=(words,), waits_for=())


def _is_doubtful(row: SourceRow) -> bool:
    return bool(row.state is not State.COMPLETE or row.lost_bytes or row.unread or row.missing)


def _finding_sentences(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{finding.kind.value}: {finding_words(finding)}"
        if finding.command:
            yield advice(Cure.of(finding), finding.kind)


def _doubt(row: SourceRow) -> str:
    """What an archive lacks for which the audit has no finding: hours older than its retention have
    none."""
    if row.unread:
        return f"what follows byte {row.position:,} is unknown: {row.unread}"
    if row.lost_bytes:
        return f"{size(row.lost_bytes)} of it are lost"
    if row.missing:
        events = sum(end - first for first, end in row.missing)
        ranges = ", ".join(f"{first:,} to {end - 1:,}" for first, end in row.missing[:_FEW])
        more = ", …" if len(row.missing) > _FEW else ""
        what = "event has" if events == 1 else "events have"
        return (
            f"{Count(events)} {what} not landed (numbers {ranges}{more}), unless they are dead "
            "letters; the audit no longer judges their hours"
        )
    return "the audit has no finding on its events that were lost, repeated or not counted"
