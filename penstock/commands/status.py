"""`penstock status`."""

from pathlib import Path
from typing import Final

import click
import msgspec

from client.errors import BadAddress
from penstock import address_variables
from penstock.agent_status import agent_option
from penstock.audit_address import audit_option
from penstock.connecting import DEFAULT_BOOTSTRAP, bootstrap_option
from penstock.http_address import HttpAddress
from penstock.json_option import json_option
from penstock.registry_connection import registry_option
from penstock.standing.addresses import Addresses
from penstock.standing.asking import Asking
from penstock.standing.table import is_well, show_standing
from penstock.up.errors import UpError
from penstock.up.loader_log import LoaderLog
from penstock.up.places import Places
from penstock.up.remembered import remembered_ports

_WELL: Final = 0
_NOT_WELL: Final = 1
_SECONDS: Final = 5.0


@click.command()
@bootstrap_option
@registry_option
@audit_option
@agent_option
@click.option(
    "--broker-http",
    envvar=address_variables.BROKER_HTTP,
    show_envvar=True,
    metavar="URL,…",
    help="HTTP ports of brokers, asked what they have lost; without it "
    f"{Addresses().broker_http}, and none where --bootstrap is given.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Of a `penstock up`: what it runs is asked, wherever that listens.",
)
@json_option
def command(
    *,
    bootstrap: str,
    registry: str,
    audit: HttpAddress,
    agent: HttpAddress,
    broker_http: str | None,
    directory: Path | None,
    as_json: bool,
) -> int:
    """Show what runs, how far behind it is, and whether every line has arrived.

    Exit code 1: somebody does not answer or an agent is silent, a table cannot be loaded, a broker
    has lost something, or events are missing, twice, changed, or nobody knows.

    \b
    Example:
        penstock status
        penstock status --dir ./penstock-data
        penstock status --bootstrap dc1-a:9092 --audit http://audit:8090
        penstock status --json | jq '.topics[] | {topic, landed}'
    """
    if broker_http is None:
        broker_http = Addresses().broker_http if bootstrap == DEFAULT_BOOTSTRAP else ""
    try:
        addresses = (
            Addresses(bootstrap, registry, str(audit), str(agent), broker_http)
            if directory is None
            else Addresses.of(remembered_ports(directory))
        )
        with Asking(addresses, within=_SECONDS) as asking:
            standing = asking.ask()
        if directory is not None:
            loader_log = LoaderLog(Places(directory.absolute()).log("loader"))
            loader_log.read()
            standing = loader_log.added_to(standing)
    except (BadAddress, ValueError, UpError) as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        click.echo(msgspec.json.encode(standing))
    else:
        show_standing(standing)
    return _WELL if is_well(standing) else _NOT_WELL
