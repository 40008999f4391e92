"""Writes operators' statements to `_audit`: acceptances of faults, and retirements of hosts.

The commands and the audit's server write them. Each statement is a journal of one entry: there is
no state to keep, and the audit sees that none is missing. A repeated statement changes nothing. The
server proves them with the audit's key, commands with the one that they are given.
"""

import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any, Final

from client.connection.brokers import Brokers
from client.errors import UnknownTopic
from ground.signatures.keys import SigningKey
from ledger.names import LEDGER_TOPIC, SUBJECT, VERSION, topic_id_text
from ledger.proofs import Chain
from ledger.publishing import write_entries
from schemas.event_schemas import LEDGER, built_in
from schemas.registry_client import RegistryClient
from wire.acls import Operation

Statement = Mapping[str, Any]  # `accepted` or `retired`, as Ledger.avsc has it

_APP: Final = "penstock-audit"
_RANDOM_BYTES: Final = 8


def write_accepted(
    brokers: Brokers,
    registry: RegistryClient,
    cluster: str,
    accepted: Mapping[str, Any],
    key: SigningKey | None = None,
) -> Mapping[str, Any]:
    """Writes the statement that a fault is accepted, and returns it as written.

    A topic id of None becomes that of the present topic; an empty one means any topic of that name.
    Raises UnknownTopic if there is no present topic, another ClientError, or SchemaError.
    """
    statement = accepted
    if accepted["topic_id"] is None:
        statement = {**accepted, "topic_id": _current_id(brokers, accepted["topic"])}
    _write(brokers, registry, cluster, {"accepted": [statement]}, key)
    return statement


def _current_id(brokers: Brokers, topic: str) -> str:
    metadata = brokers.persist(lambda: brokers.refresh([topic]))
    if not metadata.has(topic):
        raise UnknownTopic(topic, f"no topic {topic} exists (a deleted one needs its topic id)")
    return topic_id_text(metadata.topic(topic).id)


def write_retired(
    brokers: Brokers,
    registry: RegistryClient,
    cluster: str,
    retired: Mapping[str, Any],
    key: SigningKey | None = None,
) -> None:
    """Writes the statement that a host is retired. Raises ClientError or SchemaError."""
    _write(brokers, registry, cluster, {"retired": [retired]}, key)


def check_writable(brokers: Brokers, registry: RegistryClient) -> None:
    """Checks that the brokers have the ledger topic, and that the registry has its schema. Raises
    ClientError or SchemaError."""
    brokers.topic(LEDGER_TOPIC, Operation.WRITE)
    registry.lookup(SUBJECT, built_in(LEDGER).text)


def _write(
    brokers: Brokers,
    registry: RegistryClient,
    cluster: str,
    statement: Statement,
    key: SigningKey | None,
) -> None:
    """Writes the statement and waits for its acknowledgement."""
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
    chain = None if key is None else Chain(key)
    write_entries(brokers, registry, [entry], timestamp=now, chain=chain)
