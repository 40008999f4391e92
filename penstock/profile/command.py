"""`penstock profile`: shows the addresses and credentials that commands use, and their origin."""

from typing import Final

import click
from click.core import ParameterSource

from ground.http.client import HttpUrl
from penstock.cli import address_variables
from penstock.cli.output import json_option, print_json, print_table
from penstock.connections.cluster import bootstrap_option
from penstock.connections.profile import SYSTEM, profile, security_file
from penstock.connections.registry import registry_option
from penstock.report.audit_requests import audit_option
from penstock.services.agent_status import agent_option

_COLUMNS: Final = ("server", "address", "from", "credentials")
_OPTIONS: Final = {
    "brokers": ("bootstrap", address_variables.BOOTSTRAP, "security"),
    "registry": ("registry", address_variables.REGISTRY, "registry_security"),
    "audit": ("audit", address_variables.AUDIT, "audit_security"),
    "agent": ("agent", address_variables.AGENT, "agent_security"),
}
_FROM_PROFILE: Final = ("broker_http", "zookeeper")


@click.command()
@bootstrap_option
@registry_option
@audit_option
@agent_option
@json_option
def command(
    *, bootstrap: str, registry: str, audit: HttpUrl, agent: HttpUrl, as_json: bool
) -> None:
    """Show the addresses that commands use, and the origin of each.

    An address comes from its option, its environment variable, the client profile, or the default
    on this machine, in this order. The profile is the file named by --profile or PENSTOCK_PROFILE,
    or else ~/.config/penstock/client.yaml or /etc/penstock/client.yaml. `penstock keys client`
    explains its keys; `penstock check-config client FILE` validates one.

    \b
    Example:
        penstock profile
        penstock profile --profile dc2.yaml --json
    """
    addresses = {
        "brokers": bootstrap,
        "registry": registry,
        "audit": str(audit),
        "agent": str(agent),
    }
    client_profile = profile()
    profile_addresses = {key: client_profile.value(key) for key in _FROM_PROFILE}
    rows = [_row(key, address) for key, address in addresses.items()] + [
        _as_row(
            key, address, str(client_profile.path), _credentials(key, f"{key}_security", address)
        )
        for key, address in profile_addresses.items()
        if address
    ]
    if as_json:
        print_json(
            {
                "profile": None if client_profile.path is None else str(client_profile.path),
                "servers": rows,
            }
        )
        return
    print_table(_COLUMNS, rows)
    if client_profile.path is None:
        click.echo(
            f"no profile: neither {SYSTEM} nor ~/.config/penstock/client.yaml exists", err=True
        )


def _row(key: str, address: str) -> dict[str, object]:
    parameter, variable, security = _OPTIONS[key]
    match click.get_current_context().get_parameter_source(parameter):
        case ParameterSource.COMMANDLINE:
            origin = f"--{parameter}"
        case ParameterSource.ENVIRONMENT:
            origin = variable
        case _:
            current_profile = profile()
            origin = str(current_profile.path) if current_profile.value(key) else "default"
    return _as_row(key, address, origin, _credentials(key, security, address))


def _credentials(key: str, security: str, address: str) -> str | None:
    """The file with the credentials; a profile has them for its own addresses only."""
    path = security_file(security)
    if path is not None:
        return str(path)
    current_profile = profile()
    credentials = getattr(current_profile.content, security, None)
    has_credentials = credentials is not None and credentials != type(credentials)()
    return (
        str(current_profile.path)
        if has_credentials and current_profile.names(key, address)
        else None
    )


def _as_row(server: str, address: str, origin: str, credentials: str | None) -> dict[str, object]:
    return {"server": server, "address": address, "from": origin, "credentials": credentials}
