"""Options of all long-running programs: `--config FILE`, `--set key=value`, `--log-format`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli.event_log import FORMATS
from penstock.cli.failures import WrongConfiguration
from penstock.config.configuration import ConfigurationError, load

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def configuration_options(command: F) -> F:
    """Adds the parameters `config` and `overrides` to a command."""
    config = click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The configuration, a YAML file.",
    )
    overrides = click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a key of the file; may be repeated.",
    )
    return config(overrides(command))


def log_format_option(command: F) -> F:
    return click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="The format of the log on stderr.",
    )(command)


def configured(kind: type[T], config: Path | None, overrides: Sequence[str]) -> T:
    """Returns the program's configuration. Raises WrongConfiguration."""
    if config is None and not overrides:
        raise click.UsageError("pass --config FILE, or every key with --set KEY=VALUE")
    try:
        return load(kind, config, overrides)
    except ConfigurationError as error:
        raise WrongConfiguration(*error.mistakes) from None
