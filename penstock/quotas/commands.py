"""`penstock quotas list`, `set` and `remove`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from client.admin.quotas import EntityQuotas, alter_quotas, quotas
from penstock.cli.finite_range import FiniteRange
from penstock.cli.output import json_option, print_json, print_table
from penstock.connections.cluster import bootstrap_option, connected

EVERYBODY: Final = "*"
_KINDS: Final = ("user", "client-id", "ip")
_NAMES: Final = {
    "produce": "producer_byte_rate",
    "fetch": "consumer_byte_rate",
    "request": "request_percentage",
    "connections": "connection_creation_rate",
    "mutations": "controller_mutation_rate",
}
COLUMNS: Final = (*_KINDS, *_NAMES)

F = TypeVar("F", bound=Callable[..., Any])


def entity_options(command: F) -> F:
    """Adds the options `user`, `client_id` and `ip`."""
    for name, condition in (
        ("--ip", "connect from this address"),
        ("--client-id", "have this client id"),
        ("--user", "have logged in as this user"),
    ):
        command = click.option(
            name, metavar="NAME", help=f"Clients that {condition}; {EVERYBODY}: each of the others."
        )(command)
    return command


def rate_option(name: str, what: str) -> Callable[[F], F]:
    return click.option(f"--{name}", type=FiniteRange(min=0, min_open=True), metavar="N", help=what)


@click.command()
@bootstrap_option
@json_option
def list_quotas(bootstrap: str, as_json: bool) -> None:
    """List all quotas and their subjects.

    \b
    Example:
        penstock quotas list
    """
    with connected(bootstrap) as brokers:
        _print(quotas(brokers), as_json=as_json)


def _print(entries: Sequence[EntityQuotas], *, as_json: bool) -> None:
    if as_json:
        print_json(
            [{"entity": dict(entry.entity), "quotas": dict(entry.quotas)} for entry in entries]
        )
    elif entries:
        print_table(COLUMNS, [_row(entry) for entry in entries])
    else:
        click.echo("no quotas", err=True)


def _row(entry: EntityQuotas) -> dict[str, object]:
    entity = {kind: EVERYBODY if name is None else name for kind, name in entry.entity.items()}
    return {
        **{kind: entity.get(kind, "") for kind in _KINDS},
        **{
            quota_name: "" if (rate := entry.quotas.get(name)) is None else f"{rate:,.12g}"
            for quota_name, name in _NAMES.items()
        },
    }


@click.command("set")
@entity_options
@rate_option("produce", "Bytes written per second.")
@rate_option("fetch", "Bytes read per second.")
@rate_option("request", "Percent of a broker's time.")
@rate_option("connections", "New connections per second from an address.")
@rate_option("mutations", "Partitions created and deleted per second.")
@bootstrap_option
@json_option
def set_quotas(
    *,
    bootstrap: str,
    as_json: bool,
    user: str | None,
    client_id: str | None,
    ip: str | None,
    **rates: float | None,
) -> None:
    """Set quotas of clients, which apply at each broker.

    A client that exceeds its quota is delayed. Of several matching quotas, the most specific
    applies: user and client id, user, client id. A quota for all others applies to each of them
    separately. Quotas that are not named stay unchanged.

    \b
    Example:
        penstock quotas set --user loader --fetch 50e6
        penstock quotas set --client-id '*' --produce 10e6 --request 50
        penstock quotas set --ip '*' --connections 20
        penstock quotas set --user '*' --mutations 5
    """
    changes = {_NAMES[key]: rate for key, rate in rates.items() if rate is not None}
    if not changes:
        options = [f"--{name}" for name in _NAMES]
        raise click.UsageError(f"pass a quota: {', '.join(options[:-1])} or {options[-1]}")
    _alter(bootstrap, _entity(user, client_id, ip), changes, as_json=as_json)


@click.command()
@entity_options
@bootstrap_option
@json_option
def remove(
    *, bootstrap: str, user: str | None, client_id: str | None, ip: str | None, as_json: bool
) -> None:
    """Remove all quotas of a user, client id or address.

    \b
    Example:
        penstock quotas remove --user loader
    """
    entity = _entity(user, client_id, ip)
    with connected(bootstrap) as brokers:
        matching_quotas = [quota for quota in quotas(brokers) if quota.entity == entity]
    if not matching_quotas:
        raise click.UsageError("no such quotas: see penstock quotas list")
    _alter(bootstrap, entity, dict.fromkeys(matching_quotas[0].quotas), as_json=as_json)


def _entity(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str | None]:
    options = dict(zip(_KINDS, (user, client_id, ip), strict=True))
    entity = {
        kind: None if name == EVERYBODY else name
        for kind, name in options.items()
        if name is not None
    }
    if not entity:
        raise click.UsageError("name a subject: --user, --client-id or --ip")
    return entity


def _alter(
    bootstrap: str,
    entity: Mapping[str, str | None],
    changes: Mapping[str, float | None],
    *,
    as_json: bool,
) -> None:
    """Changes the quotas, and prints the result."""
    with connected(bootstrap) as brokers:
        alter_quotas(brokers, entity, changes)
        _print([quota for quota in quotas(brokers) if quota.entity == entity], as_json=as_json)
