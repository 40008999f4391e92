"""`penstock registry`: runs a schema registry."""

from pathlib import Path

import click

from penstock.cli.event_log import LogFormat, log_to_stderr
from penstock.config.options import configuration_options, configured, log_format_option
from registry.config import RegistryConfig
from registry.program import run


@click.command()
@configuration_options
@log_format_option
def command(*, config: Path | None, overrides: tuple[str, ...], log_format: LogFormat) -> int:
    """Run a schema registry until SIGTERM or Ctrl-C.

    `penstock keys registry` and docs/registry-configuration.md explain the keys of the file.

    \b
    Example:
        penstock registry --config registry.yaml --set port=18081
        penstock registry --set 'brokers=[127.0.0.1:9092]'
    """
    configuration = configured(RegistryConfig, config, overrides)
    log_to_stderr(log_format)
    return run(configuration)
