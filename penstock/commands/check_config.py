"""`penstock check-config`."""

from pathlib import Path
from typing import Any

import click
import msgspec

from broker.config import BrokerConfig
from penstock.json_option import json_option
from penstock.output import print_json, print_table
from penstock.program_configuration import configured
from registry.config import RegistryConfig

KINDS: dict[str, type[msgspec.Struct]] = {"broker": BrokerConfig, "registry": RegistryConfig}
_SECRET = ("secret", "password", "token")


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def command(kind: str, file: Path, as_json: bool) -> None:
    """Validate the configuration file of a program, and show what it comes to.

    Nothing is started and nobody is asked. Values of secrets are not shown.

    \b
    Example:
        penstock check-config broker broker.yaml
    """
    loaded = configured(KINDS[kind], file, ())
    effective = _without_secrets(msgspec.to_builtins(loaded, enc_hook=str))
    if as_json:
        print_json(effective)
        return
    rows = [{"key": key, "value": value} for key, value in _flat(effective)]
    print_table(("key", "value"), rows)


def _without_secrets(document: Any) -> Any:
    if isinstance(document, dict):
        return {
            key: "…" if value and any(word in key for word in _SECRET) else _without_secrets(value)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [_without_secrets(item) for item in document]
    return document


def _flat(document: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The keys as `--set` takes them, with their values."""
    rows: list[tuple[str, Any]] = []
    for key, value in document.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append((prefix + key, value))
    return rows
