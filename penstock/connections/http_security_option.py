"""How a program's HTTP port is asked, as an option: `--audit-security FILE` and the like.

The file is read when it is known what is asked: what it says must fit the address.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ground.http_client import HttpUrl
from ground.http_security import HttpSecurity, check_scheme
from penstock.cli.failures import WrongConfiguration
from penstock.config.configuration import ConfigurationError, load

F = TypeVar("F", bound=Callable[..., Any])

_REMEMBERED: Final = "penstock.http_security"  # in a command's context, by what is asked


def http_security_option(asked: str, variable: str, help_: str) -> Callable[[F], F]:
    """`--ASKED-security`, which `said_http_security` goes by."""

    def remember(context: click.Context, _: click.Parameter, path: Path | None) -> None:
        if path is not None:
            context.meta.setdefault(_REMEMBERED, {})[asked] = path

    return click.option(
        f"--{asked}-security",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar=variable,
        show_envvar=True,
        metavar="FILE",
        expose_value=False,
        callback=remember,
        help=help_,
    )


def said_http_security(asked: str, *urls: HttpUrl) -> HttpSecurity:
    """What the running command was told of how to ask at these addresses."""
    context = click.get_current_context(silent=True)
    path = context.meta.get(_REMEMBERED, {}).get(asked) if context else None
    if path is None:
        return HttpSecurity()
    try:
        security = load(HttpSecurity, path)
    except ConfigurationError as error:
        raise WrongConfiguration(str(error)) from None
    for url in urls:
        try:
            check_scheme(security, url.scheme)
        except ValueError as error:
            raise WrongConfiguration(f"{path}, for {url}: {error}") from None
    return security
