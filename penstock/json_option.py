"""`--json`, which every command takes that has something to say and comes to an end."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON, for programs to read."
    )(command)
