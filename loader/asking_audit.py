"""The audit asked about a table's hours, then the brokers where its topics end: in this order, and
before the table's load is planned. See hours/audit_gate.py."""

from typing import Final

from client.brokers import Brokers
from loader.hours.audit import Audit
from loader.hours.audit_gate import AuditGate
from loader.hours.closing import open_hours
from loader.hours.ledger_reading import topic_ends
from loader.manifests import Manifest
from loader.surroundings import Surroundings
from loader.tables import TableSource

MOST_ASKED: Final = 1_000  # hours of a table, the newest of them, in one load


def ask_audit(
    audit: Audit,
    around: Surroundings,
    table: TableSource,
    brokers: Brokers,
    latest: Manifest | None,
) -> AuditGate:
    """Raises ClientError if the brokers do not say where the topics end."""
    now = around.now()
    topics = [source.topic for source in table.topics]
    hours = sorted({*open_hours(latest, now), *around.request.rebuild})[-MOST_ASKED:]
    if latest is not None and not latest.header:
        hours = []
    around.watcher.doing(table.name, f"asking the audit about {len(hours)} hours")
    answers = audit.ask((topic, hour) for hour in hours for topic in topics)
    settle = around.config.completeness.settle
    settle_millis = None if settle is None else int(settle * 1000)
    return AuditGate(answers, topic_ends(brokers, topics), now, settle_millis)
