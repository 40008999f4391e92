"""`penstock zookeeper`: runs a ZooKeeper."""

import logging
from pathlib import Path

import click

from cluster.errors import EmbeddedError
from cluster.zookeeper_server.config import DEFAULT_PORT, ZooKeeperConfig
from cluster.zookeeper_server.server import run_configured
from cluster.zookeeper_server.status import Asking
from ground.network.listening import is_loopback
from ground.systemd import Supervisor
from penstock.cli.event_log import LogFormat, log_to_stderr
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, say
from penstock.config.options import configuration_options, configured, log_format_option

log = logging.getLogger(__name__)


@click.command()
@configuration_options
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The directory of its data; created if missing.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="The address to listen on (127.0.0.1).",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    metavar="N",
    help=f"The port to listen on ({DEFAULT_PORT}).",
)
@click.option(
    "--jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A directory with ZooKeeper's jars; default: PySpark's or Debian's.",
)
@click.option(
    "--insecure",
    is_flag=True,
    help="Allow an address that other machines can reach, without a login.",
)
@click.option(
    "--status",
    "asked",
    is_flag=True,
    help="Show the role of this host's server: leader, follower or standalone.",
)
@json_option
@log_format_option
def command(
    *,
    config: Path | None,
    overrides: tuple[str, ...],
    data_dir: Path | None,
    host: str | None,
    port: int | None,
    jars: Path | None,
    insecure: bool,
    asked: bool,
    as_json: bool,
    log_format: LogFormat,
) -> int:
    """Run a ZooKeeper on this machine until SIGTERM or Ctrl-C.

    One server is enough for one machine. In production, run an ensemble of three or five, each with
    a file that names all of them. `penstock keys zookeeper` and docs/zookeeper.md explain its keys.

    With --status, exit code 1: the server does not serve requests.

    \b
    Example:
        penstock zookeeper --data-dir ./zookeeper
        penstock zookeeper --config zookeeper.yaml
        penstock zookeeper --config zookeeper.yaml --status
        penstock broker --config broker.yaml --set zookeeper=127.0.0.1:2181
    """
    settings = {"data_dir": data_dir, "host": host, "port": port, "jars": jars}
    options = [f"{key}={value}" for key, value in settings.items() if value is not None]
    if insecure:
        options.append("insecure=true")
    if asked and config is None and data_dir is None:
        options.append("data_dir=.")  # required, but not used
    configuration = configured(ZooKeeperConfig, config, (*options, *overrides))
    if asked:
        return _show_status(configuration, as_json=as_json)
    if as_json:
        raise click.UsageError("--json needs --status")
    log_to_stderr(log_format)
    if not is_loopback(configuration.host) and configuration.tls is None:
        log.warning(
            "insecure: other machines reach host=%s, and there is no login", configuration.host
        )
    try:
        return run_configured(configuration, Supervisor())
    except EmbeddedError as error:
        raise Failed(str(error)) from None


def _show_status(config: ZooKeeperConfig, *, as_json: bool) -> int:
    status = Asking(config.host, config.port, config.tls).standing()
    if status is None:
        raise Failed(f"no ZooKeeper answers at {config.host}:{config.port}")
    if as_json:
        print_json({"mode": status.mode, "serves": status.serves, "zxid": status.zxid})
    else:
        say(status.mode)
    return 0 if status.serves else 1
