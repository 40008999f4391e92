"""What the profiles of the audit measure, and what each of them is compared with."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.figures.profile import Scale, ServerKind
from bench.ledger_folding import folders
from bench.servers.audited import AUDITS
from bench.servers.brokers import PENSTOCK
from bench.servers.ledger_brokers import NO_LEDGER, ledger_brokers
from bench.servers.shippers import agents


@contextlib.contextmanager
def audits(
    profile: str, directory: Path, scale: Scale, *, beside: bool
) -> Iterator[Mapping[str, ServerKind]]:
    """By their names, with what they need started. NotMeasured if it cannot be."""
    match profile:
        case "audit-folding":
            yield folders(beside=beside)
        case "audit-broker":
            yield ledger_brokers(scale, beside=beside)
        case "audit-agent":
            kept = {"ledger": True, "ledger_interval": scale.ledger_interval}
            without = {NO_LEDGER: {"ledger": False}} if beside else {}
            with agents(directory, {PENSTOCK: kept, **without}) as kinds:
                yield kinds
        case _:
            yield AUDITS
