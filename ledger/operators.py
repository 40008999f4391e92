"""What operators say to the audit, in `_audit`: that a fault is accepted, that of a host nothing is
expected any more. Commands write it, and the audit's own server for those who are let in there.

Each statement is a journal of its own, with one entry: nobody has to remember how far it was, and
the audit sees at once that none is missing. Who makes the same twice has said it twice, which means
the same.
"""

import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any, Final

from client.brokers import Brokers
from ledger.names import LEDGER_TOPIC, SUBJECT, VERSION, topic_id_text
from ledger.publishing import write_entries
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from wire.acls import Operation

Statement = Mapping[str, Any]  # `accepted` or `retired`, as Ledger.avsc has it

_APP: Final = "penstock-audit"
_RANDOM_BYTES: Final = 8


def write_accepted(
    brokers: Brokers, registry: RegistryClient, cluster: str, accepted: Mapping[str, Any]
) -> Mapping[str, Any]:
    """All of it. Where its topic's id is None, that of the topic is written that there is now: if
    there is none, any of that name is meant. Raises ClientError or SchemaError."""
    whole = accepted
    if accepted["topic_id"] is None:
        whole = {**accepted, "topic_id": _current_id(brokers, accepted["topic"])}
    _write(brokers, registry, cluster, {"accepted": [whole]})
    return whole


def _current_id(brokers: Brokers, topic: str) -> str:
    known = brokers.persist(lambda: brokers.refresh([topic]))
    return topic_id_text(known.topic(topic).id) if known.has(topic) else ""


def write_retired(
    brokers: Brokers, registry: RegistryClient, cluster: str, retired: Mapping[str, Any]
) -> None:
    """Raises ClientError or SchemaError."""
    _write(brokers, registry, cluster, {"retired": [retired]})


def check_writable(brokers: Brokers, registry: RegistryClient) -> None:
    """Raises ClientError or SchemaError unless brokers and registry answer and have the ledger."""
    brokers.topic(LEDGER_TOPIC, Operation.WRITE)
    registry.lookup(SUBJECT, built_in(LEDGER).text)


def _write(brokers: Brokers, registry: RegistryClient, cluster: str, statement: Statement) -> None:
    """Returns when `_audit` has it."""
    now = time.time_ns() // 1_000_000
    header = {
        "time": now,
        "host": socket.gethostname(),
        "app": _APP,
        "source": f"operator-{secrets.token_hex(_RANDOM_BYTES)}",
        "seq": 0,
        "position": 0,
    }
    entry = {
        "header": header,
        "version": VERSION,
        "tier": "operator",
        "cluster": cluster,
        **statement,
    }
    write_entries(brokers, registry, [entry], timestamp=now)
