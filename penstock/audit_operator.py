"""What an operator says to the audit: an entry of its own in a cluster's `_audit`.

Each call is a journal of its own, with one entry: nobody has to remember how far it was, and the
audit sees at once that none is missing. Whoever makes the same call twice has said it twice, which
means the same.
"""

import getpass
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import click
from click.core import ParameterSource

from audit.config import AuditConfig
from client.brokers import Brokers
from ledger.names import VERSION
from ledger.publishing import write_entries
from penstock.connecting import bootstrap_option, connected
from penstock.program_configuration import configured
from penstock.registry_connection import registry_at, registry_option
from schemas.registry_client import RegistryClient

_APP: Final = "penstock-audit"
_DEFAULT_CLUSTER: Final = "local"
_RANDOM_BYTES: Final = 8

F = TypeVar("F", bound=Callable[..., Any])
Entry = Mapping[str, Any]  # as Ledger.avsc has it


class Ledger(NamedTuple):
    """Where the `_audit` of a cluster is."""

    cluster: str
    bootstrap: str
    registry: str

    @contextmanager
    def opened(self) -> Iterator[tuple[Brokers, RegistryClient]]:
        with connected(self.bootstrap) as brokers, registry_at(self.registry) as registry:
            yield brokers, registry


def ledger_options(command: F) -> F:
    """Adds `ledgers`: those of the configuration's clusters, or of the one that options name."""

    @click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The audit's file, which names its clusters, their brokers and registries.",
    )
    @click.option("--cluster", metavar="NAME", help="Only this one of them.")
    @bootstrap_option
    @registry_option
    @wraps(command)
    def with_ledgers(
        *,
        config: Path | None,
        cluster: str | None,
        bootstrap: str,
        registry: str,
        **others: Any,
    ) -> Any:
        one = Ledger(cluster or _DEFAULT_CLUSTER, bootstrap, registry)
        ledgers = (one,) if config is None else _ledgers(config, cluster)
        return command(ledgers=ledgers, **others)

    return cast("F", with_ledgers)


def _ledgers(config: Path, cluster: str | None) -> tuple[Ledger, ...]:
    if _is_given("bootstrap") or _is_given("registry"):
        raise click.UsageError("--bootstrap and --registry stand in the file that --config names")
    clusters = configured(AuditConfig, config, ()).all_clusters
    if cluster is not None and cluster not in clusters:
        raise click.UsageError(f"{config} has no cluster {cluster}, but {', '.join(clusters)}")
    return tuple(
        Ledger(name, ",".join(each.brokers), each.registry)
        for name, each in clusters.items()
        if cluster in {None, name}
    )


def _is_given(option: str) -> bool:
    """On the command line: a default from the environment yields to a file."""
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


def write_statement(
    brokers: Brokers, registry: RegistryClient, cluster: str, statement: Entry
) -> None:
    """Returns when `_audit` has it. Raises ClientError or SchemaError."""
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


def operator() -> str:
    """Who makes the call, as far as this machine knows."""
    if name := os.environ.get("SUDO_USER"):
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())
