"""`penstock zookeeper`."""

import logging
from pathlib import Path

import click

from cluster.errors import EmbeddedError
from cluster.zookeeper_server.config import DEFAULT_PORT, ZooKeeperConfig
from cluster.zookeeper_server.server import run_configured
from cluster.zookeeper_server.status import Asking
from ground.network.listening import is_loopback
from ground.supervisor import Supervisor
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
    help="Where it keeps its data; made if it is not there.",
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
    help="A directory with ZooKeeper's jars, if not PySpark's or Debian's.",
)
@click.option("--insecure", is_flag=True, help="Allow an address that other machines can reach.")
@click.option(
    "--status",
    "asked",
    is_flag=True,
    help="Ask the one that runs here what it is: leader, follower, standalone.",
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

    One server is enough for one machine. In production use an ensemble of three or five: a file for
    each, which names all of them. `penstock keys zookeeper` explains its keys, as
    docs/zookeeper.md does.

    With --status, exit code 1: it does not serve.

    \b
    Example:
        penstock zookeeper --data-dir ./zookeeper
        penstock zookeeper --config zookeeper.yaml
        penstock zookeeper --config zookeeper.yaml --status
        penstock broker --config broker.yaml --set zookeeper=127.0.0.1:2181
    """
    given = {"data_dir": data_dir, "host": host, "port": port, "jars": jars}
    options = [f"{key}={value}" for key, value in given.items() if value is not None]
    if insecure:
        options.append("insecure=true")
    if asked and config is None and data_dir is None:
        options.append("data_dir=.")  # it is not looked at
    loaded = configured(ZooKeeperConfig, config, (*options, *overrides))
    if asked:
        return _show_standing(loaded, as_json=as_json)
    if as_json:
        raise click.UsageError("--json is for --status")
    log_to_stderr(log_format)
    if not is_loopback(loaded.host) and loaded.tls is None:
        log.warning("insecure: other machines reach host=%s, and there is no login", loaded.host)
    try:
        return run_configured(loaded, Supervisor())
    except EmbeddedError as error:
        raise Failed(str(error)) from None


def _show_standing(config: ZooKeeperConfig, *, as_json: bool) -> int:
    standing = Asking(config.host, config.port, config.tls).standing()
    if standing is None:
        raise Failed(f"no ZooKeeper answers at {config.host}:{config.port}")
    if as_json:
        print_json({"mode": standing.mode, "serves": standing.serves, "zxid": standing.zxid})
    else:
        say(standing.mode)
    return 0 if standing.serves else 1
