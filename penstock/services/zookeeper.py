"""`penstock zookeeper`."""

import logging
from pathlib import Path

import click

from cluster.errors import EmbeddedError
from cluster.zookeeper import DEFAULT_PORT, run_standalone
from ground.listening import is_loopback
from penstock.cli.event_log import LogFormat, log_to_stderr
from penstock.cli.failures import Failed
from penstock.config.options import log_format_option

log = logging.getLogger(__name__)


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Where it keeps its data; made if it is not there.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    metavar="N",
    help="The port to listen on.",
)
@click.option(
    "--jars",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A directory with ZooKeeper's jars, if not PySpark's or Debian's.",
)
@click.option("--insecure", is_flag=True, help="Allow an address that other machines can reach.")
@log_format_option
def command(
    *,
    data_dir: Path,
    host: str,
    port: int,
    jars: Path | None,
    insecure: bool,
    log_format: LogFormat,
) -> int:
    """Run a ZooKeeper on this machine until SIGTERM or Ctrl-C.

    One server is enough for one machine. In production use an ensemble of three or five.

    \b
    Example:
        penstock zookeeper --data-dir ./zookeeper
        penstock broker --config broker.yaml --set zookeeper=127.0.0.1:2181
    """
    if not insecure and not is_loopback(host):
        raise click.UsageError(f"{host} can be reached from other machines: that needs --insecure")
    log_to_stderr(log_format)
    if not is_loopback(host):
        log.warning("insecure: other machines reach host=%s, and there is no login", host)
    try:
        return run_standalone(data_dir, port, host, jars=jars)
    except EmbeddedError as error:
        raise Failed(str(error)) from None
