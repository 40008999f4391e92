"""Asks an audit what its ledger has of an input's archives."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from agent.files.backfill_plan import BackfillPlan
from audit.api.answers import Findings, SourceRow, Sources
from audit.api.queries import MOST_ITEMS
from audit.reconciling.findings import Finding
from ground.http.client import HttpUrl
from penstock.backfill.verdict import BackfillVerdict, SourcesInLedger, judge, sources_of
from penstock.report.audit_requests import ask

_SOURCES: Final = 200  # of a request
_MOST_PAGES: Final = 20  # of findings


def verdict_of(audit: HttpUrl, cluster: str, topic: str, plan: BackfillPlan) -> BackfillVerdict:
    """Returns the verdict on the archives of a plan. Raises Failed."""
    place = {"cluster": cluster, "topic": topic}
    sources = sources_of(plan)
    parts = (sources[start : start + _SOURCES] for start in range(0, len(sources), _SOURCES))
    answers = [
        ask(audit, "sources", {**place, "sources": ",".join(part), "size": MOST_ITEMS}, Sources)
        for part in parts
    ]
    ledger = SourcesInLedger.of(answers)
    return judge(plan, ledger, _findings(audit, place, ledger.doubtful()))


def _findings(
    audit: HttpUrl, place: Mapping[str, str], rows: Sequence[SourceRow]
) -> Mapping[str, Sequence[Finding]]:
    """The findings on these files, accepted ones included."""
    sources = {row.source for row in rows}
    findings: defaultdict[str, list[Finding]] = defaultdict(list)
    for host in {row.host for row in rows}:
        for page in range(1, _MOST_PAGES + 1):
            query: dict[str, str | int] = {"host": host, "size": MOST_ITEMS, "page": page}
            answer = ask(audit, "findings", {**place, **query}, Findings)
            for finding in answer.items:
                if finding.source in sources:
                    findings[finding.source].append(finding)
            if page * MOST_ITEMS >= answer.page.total:
                break
    return findings
