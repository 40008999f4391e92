"""`--config name=value` and `--default name`, as the commands for topics take them."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _pairs(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    configs = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not name=value")
        configs[name] = value
    return configs


def config_option(command: F) -> F:
    return click.option(
        "--config",
        "configs",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_pairs,
        help="One of Kafka's topic configs; may be repeated.",
    )(command)
