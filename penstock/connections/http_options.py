"""Options for the HTTP port of a program: its URL, and a file with credentials for it.

A file of credentials is read once the URLs are known, since its `tls` must match them.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from ground.http.client import HttpUrl
from ground.http.security import HttpSecurity, check_scheme
from penstock.cli import address_variables
from penstock.cli.failures import WrongConfiguration
from penstock.cli.http_address import HttpUrlType
from penstock.connections.profile import (
    address_option,
    chosen_security,
    profile,
    profile_option,
    security_file,
    security_option,
)

F = TypeVar("F", bound=Callable[..., Any])

BROKER_HTTP_SECURITY: Final = "PENSTOCK_BROKER_HTTP_SECURITY"


def http_option(
    program: str,
    default: str,
    variable: str,
    security_variable: str,
    credentials: str,
    *,
    is_needed: bool = True,
    has_default: bool = True,
) -> Callable[[F], F]:
    """Adds `--PROGRAM URL` and `--PROGRAM-security FILE`. If the command does not always need the
    URL, it is None unless the option or the variable names one. `has_default`: the command tries
    the default address if the profile names none either."""
    url = address_option(
        program,
        f"--{program}",
        default=default if has_default else "",
        variable=variable,
        is_needed=is_needed,
        type=HttpUrlType(program, default),
        metavar="URL",
        help=f"The {program}.",
    )
    security = http_security_option(
        program,
        security_variable,
        f"How to connect to the {program}: a YAML file with {credentials}.",
    )
    return lambda command: url(security(command))


def http_security_option(program: str, variable: str, help_: str) -> Callable[[F], F]:
    """Adds `--PROGRAM-security FILE`, whose value `http_security` reads."""
    return security_option(_key(program), f"--{program}-security", variable, help_)


def broker_http_option(help_: str) -> Callable[[F], F]:
    """Adds the parameter `broker_http`, which is None unless the option or the variable names URLs,
    and the option --broker-http-security."""

    def add(command: F) -> F:
        urls = click.option(
            "--broker-http",
            envvar=address_variables.BROKER_HTTP,
            show_envvar=True,
            metavar="URL,…",
            help=help_,
        )
        security = http_security_option(
            "broker-http",
            BROKER_HTTP_SECURITY,
            "How to connect to these ports: a YAML file with `tls`, and `token_file`.",
        )
        return profile_option(urls(security(command)))

    return add


def broker_http_of(bootstrap: str) -> str | None:
    """Returns the HTTP ports of these brokers according to the profile; None if the profile names
    other brokers."""
    current = profile()
    return current.value("broker_http") if current.names("brokers", bootstrap) else None


def http_security(program: str, *urls: HttpUrl) -> HttpSecurity:
    """Returns the credentials of the running command for these URLs."""
    key = _key(program)
    addresses = ",".join(map(str, urls))
    security = chosen_security(key, key.removesuffix("_security"), addresses, HttpSecurity)
    path = security_file(key)
    for url in urls if path else ():
        try:
            check_scheme(security, url.scheme)
        except ValueError as error:
            raise WrongConfiguration(f"{path}, for {url}: {error}") from None
    return security


def _key(program: str) -> str:
    """The profile's key for these credentials."""
    return f"{program.replace('-', '_')}_security"
