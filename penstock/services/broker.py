"""`penstock broker`: runs a broker."""

from pathlib import Path

import click

from broker.configs.config import BrokerConfig
from broker.program import run
from penstock.cli.event_log import LogFormat, log_to_stderr
from penstock.config.options import configuration_options, configured, log_format_option


@click.command()
@configuration_options
@log_format_option
def command(*, config: Path | None, overrides: tuple[str, ...], log_format: LogFormat) -> int:
    """Run a broker until SIGTERM or Ctrl-C.

    `penstock keys broker` and docs/broker-configuration.md explain the keys of the file.

    \b
    Example:
        penstock broker --config broker.yaml --set port=19092
        penstock broker --set id=1 --set data_dir=./data --set zookeeper=embedded
    """
    configuration = configured(BrokerConfig, config, overrides)
    log_to_stderr(log_format)
    return run(configuration)
