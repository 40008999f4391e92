"""The servers that the audit's profiles measure and compare."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.figures.profile import Scale, ServerKind
from bench.ledger_folding import folders
from bench.servers.audit_services import AUDITS
from bench.servers.brokers import PENSTOCK
from bench.servers.ledger_brokers import NO_LEDGER, ledger_brokers
from bench.servers.shippers import agents


@contextlib.contextmanager
def audits(
    profile: str, directory: Path, scale: Scale, *, beside: bool
) -> Iterator[Mapping[str, ServerKind]]:
    """Yields the kinds of server by name, with the servers that they share already started. Raises
    NotMeasured."""
    match profile:
        case "audit-folding":
            yield folders(beside=beside)
        case "audit-broker":
            yield ledger_brokers(scale, beside=beside)
        case "audit-agent":
            ledger_settings = {"ledger": True, "ledger_interval": scale.ledger_interval}
            other_settings = {NO_LEDGER: {"ledger": False}} if beside else {}
            with agents(
                directory, {PENSTOCK: ledger_settings, **other_settings}
            ) as servers_by_name:
                yield servers_by_name
        case _:
            yield AUDITS
