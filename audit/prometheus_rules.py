"""Rules for Prometheus: what to be called for, from the audit's own figures. Pure; the file is
deploy/prometheus/penstock-audit.rules.yaml."""

import re
from typing import Any, Final, NamedTuple

import yaml

from audit.metrics import PREFIX

_HEAD: Final = """\
# Written by deploy/write_monitoring.py from audit/prometheus_rules.py: change that, not this.
"""


class _Rule(NamedTuple):
    """`expression` with names of metrics without their prefix, in angle brackets."""

    name: str
    expression: str
    stands: str
    severity: str
    summary: str
    description: str


_RULES: Final = (
    _Rule(
        "PenstockAuditAbsent",
        "absent(<ledger_age_seconds>)",
        "5m",
        "critical",
        "No audit is being scraped",
        "Nobody says whether events arrive. Look at the audit's process and at the scrape.",
    ),
    _Rule(
        "PenstockLedgerNotRead",
        "<ledger_age_seconds> > 300 or <cluster_reachable> == 0",
        "5m",
        "critical",
        "The ledger of {{ $labels.cluster }} is not read",
        "The audit cannot reach the cluster or its registry: its log and its page say why.",
    ),
    _Rule(
        "PenstockEventsMissing",
        "<topic_missing_events> > 0",
        "5m",
        "critical",
        "{{ $labels.cluster }}/{{ $labels.topic }} misses {{ $value }} events",
        "The audit's page names host, file and bytes.",
    ),
    _Rule(
        "PenstockEventsDuplicated",
        "<topic_excess_events> > 0",
        "5m",
        "warning",
        "{{ $labels.cluster }}/{{ $labels.topic }} has {{ $value }} events too many",
        "The audit's page says at which tier.",
    ),
    _Rule(
        "PenstockTopicFaulty",
        "<topic_state> >= 3",
        "5m",
        "warning",
        "{{ $labels.cluster }}/{{ $labels.topic }} does not add up",
        "3 is missing, 4 duplicated, 5 changed; the audit's page says what.",
    ),
    _Rule(
        "PenstockTopicUnknown",
        "<topic_state> == 2",
        "5m",
        "warning",
        "Nobody knows whether all of {{ $labels.cluster }}/{{ $labels.topic }} has arrived",
        "Nobody watched for a while: the audit's page says when, and where. Whoever knows better "
        "accepts it.",
    ),
    _Rule(
        "PenstockLoadFails",
        "<load_failing_seconds> >= 0",
        "5m",
        "critical",
        "{{ $labels.cluster }}/{{ $labels.topic }} is not loaded into {{ $labels.destination }}",
        "Every load of it fails: the audit's page says why, and what to do.",
    ),
    _Rule(
        "PenstockTopicLate",
        "<topic_pending_seconds> > 86400",
        "15m",
        "warning",
        "{{ $labels.cluster }}/{{ $labels.topic }} has waited for more than a day",
        "The audit's page says for whom.",
    ),
    _Rule(
        "PenstockAgentsSilent",
        'sum by (cluster) (<agents>{state=~"silent|never"}) > 0',
        "10m",
        "warning",
        "{{ $value }} agents of {{ $labels.cluster }} are silent",
        "The audit's page has them under agents. Hosts that are gone for good are retired.",
    ),
    _Rule(
        "PenstockLedgerEntriesLeftOut",
        "increase(<ledger_left_out_total>[1h]) > 0 or increase(<ledger_gaps_total>[1h]) > 0",
        "0m",
        "warning",
        "Entries of the ledger of {{ $labels.cluster }} were not read",
        "They cannot be decoded, are of a later version, or were deleted before they were read.",
    ),
    _Rule(
        "PenstockWebhookFails",
        'increase(<webhook_posts_total>{outcome="failed"}[15m]) > 3',
        "0m",
        "warning",
        "The audit's alerts do not reach their webhook",
        "They are sent again; the audit's log says why they are not taken.",
    ),
)


def rules() -> str:
    """The file's text."""
    groups = [{"name": "penstock-audit", "rules": [_rule(each) for each in _RULES]}]
    return _HEAD + yaml.safe_dump({"groups": groups}, sort_keys=False, width=100)


def _rule(rule: _Rule) -> dict[str, Any]:
    return {
        "alert": rule.name,
        "expr": full(rule.expression),
        "for": rule.stands,
        "labels": {"severity": rule.severity},
        "annotations": {"summary": rule.summary, "description": rule.description},
    }


def full(expression: str) -> str:
    """With the metrics' whole names."""
    return re.sub(r"<(\w+)>", rf"{PREFIX}\1", expression)
