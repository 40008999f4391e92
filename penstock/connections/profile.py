"""The client profile: addresses and credentials for commands that are called without options.

An address comes from its option, else from its environment variable, else from the profile, else
it is the default on this machine. The profile is the file that `--profile` or PENSTOCK_PROFILE
names, else ~/.config/penstock/client.yaml, else /etc/penstock/client.yaml; files are not merged. It
is read when the first option needs it, so that commands with all options work for users who may not
read it.

Credentials follow the address: those of the profile are used for the addresses that it names, also
if an option names some of these, and for no other address.
"""

import grp
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from penstock.cli import address_variables
from penstock.cli.failures import WrongConfiguration
from penstock.config.configuration import ConfigurationError, load

if TYPE_CHECKING:
    from penstock.config.client_profile import ClientProfile

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

SYSTEM: Final = Path("/etc/penstock/client.yaml")
_PROFILE: Final = "penstock.profile"  # in a command's context: the file
_READ: Final = "penstock.profile.read"  # its contents
_SECURITY: Final = "penstock.security"  # in a command's context: the files of --…security, by key


class Profile(NamedTuple):
    """A profile and its file. Without a file, the profile is empty."""

    path: Path | None = None
    content: "ClientProfile | None" = None

    def value(self, key: str) -> str:
        """Returns the text or addresses under `key`, as options take them; empty without a file."""
        return self.content.address(key) if self.content else ""

    def names(self, key: str, addresses: str) -> bool:
        """Whether the profile's value of `key` contains all these comma-separated addresses."""
        own_addresses = {_bare(address) for address in self.value(key).split(",")}
        return (
            bool(addresses)
            and {_bare(address) for address in addresses.split(",")} <= own_addresses
        )


def _bare(address: str) -> str:
    return address.strip().rstrip("/")


def profile_option(command: F) -> F:
    """Adds --profile once to a command, even if it has several options that a profile may
    replace."""
    if any(parameter.name == "profile" for parameter in getattr(command, "__click_params__", ())):
        return command
    return click.option(
        "--profile",
        type=click.Path(dir_okay=False, path_type=Path),
        envvar=address_variables.PROFILE,
        show_envvar=True,
        metavar="FILE",
        expose_value=False,
        is_eager=True,
        callback=_remember_profile,
        help="A client profile: addresses and credentials for options that are not set.",
    )(command)


def address_option(
    key: str, *names: str, default: str, variable: str, is_needed: bool = True, **more: Any
) -> Callable[[F], F]:
    """Returns an option whose default is the profile's value of `key`, else `default`, if there is
    one. Unless `is_needed`, the default is None, so that commands that do not need the option work
    with an unreadable profile."""
    option = click.option(
        *names,
        default=(lambda: default_address(key, default)) if is_needed else None,
        show_default=f"the profile's, or {default}" if default else "the profile's",
        envvar=variable,
        show_envvar=True,
        **more,
    )
    return lambda command: profile_option(option(command))


def default_address(key: str, default: str) -> str:
    """Returns the profile's address, else `default`."""
    return profile().value(key) or default


def security_option(key: str, name: str, variable: str | None, help_: str) -> Callable[[F], F]:
    """Returns an option that names a file with credentials, which `chosen_security` reads."""

    def remember(context: click.Context, _: click.Parameter, path: Path | None) -> None:
        if path is not None:
            context.meta.setdefault(_SECURITY, {})[key] = path

    return click.option(
        name,
        type=click.Path(dir_okay=False, path_type=Path),
        envvar=variable,
        show_envvar=variable is not None,
        metavar="FILE",
        expose_value=False,
        callback=remember,
        help=help_,
    )


def security_file(key: str) -> Path | None:
    """Returns the file that the running command's option or variable names."""
    context = click.get_current_context(silent=True)
    path: Path | None = context.meta.get(_SECURITY, {}).get(key) if context else None
    return path


def chosen_security(key: str, address_key: str, addresses: str, kind: type[T]) -> T:
    """Returns the credentials for these addresses: those that the option or the variable names,
    else those of the profile if it names the addresses, else none."""
    path = security_file(key)
    if path is not None:
        try:
            return load(kind, path)
        except ConfigurationError as error:
            raise WrongConfiguration(*error.mistakes) from None
    current_profile = readable_profile()
    if current_profile.content and current_profile.names(address_key, addresses):
        security: T = getattr(current_profile.content, key)
        return security
    return kind()


def profile() -> Profile:
    """Returns the profile of the running command, which is read once. Raises WrongConfiguration."""
    context = click.get_current_context(silent=True)
    if context is None:
        return Profile()
    if _READ not in context.meta:
        context.meta[_READ] = _read(context.meta.get(_PROFILE))
    own_profile: Profile = context.meta[_READ]
    return own_profile


def readable_profile() -> Profile:
    """Returns the profile of the running command; an empty one if the user may not read the default
    file. Options that need one of its values fail before this is called."""
    context = click.get_current_context(silent=True)
    path = _default_file()
    if context is None or (
        path is not None and _PROFILE not in context.meta and not os.access(path, os.R_OK)
    ):
        return Profile()
    return profile()


def origin(key: str, address: str) -> str:
    """Returns where an address came from, for the end of a message; empty if it did not come from
    the profile."""
    own_profile = readable_profile()
    if own_profile.path is None or address != own_profile.value(key):
        return ""
    return f" ({key} from {own_profile.path})"


def hint(key: str, address: str, default: str, option: str, variable: str) -> str:
    """Returns advice for an address that does not answer; empty if the user named the address."""
    if source := origin(key, address):
        return source
    if address != default:
        return ""
    return (
        f": `penstock up` starts a pipeline on this machine; for another one pass {option}, set "
        f"{variable}, or write a profile ({SYSTEM})"
    )


def _remember_profile(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    if path is not None:
        context.meta[_PROFILE] = path


def _read(chosen: Path | None) -> Profile:
    path = chosen or _default_file()
    if path is None:
        return Profile()
    # Imported here because it needs Kafka's client.
    from penstock.config.client_profile import ClientProfile  # noqa: PLC0415

    try:
        return Profile(path, load(ClientProfile, path))
    except ConfigurationError as error:
        raise WrongConfiguration(f"{error}{_who_may_read(path)}") from None


def _default_file() -> Path | None:
    """The default file; a home folder that may not be searched, as under sudo, is skipped."""
    # Path.exists raises PermissionError, Path.expanduser an error of its own.
    config_home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    files = (Path(config_home, "penstock", SYSTEM.name), SYSTEM)
    return next((path for path in files if os.path.exists(path)), None)  # noqa: PTH110


def _who_may_read(path: Path) -> str:
    """Names the group whose members may read the file, if this user may not."""
    try:
        if os.access(path, os.R_OK) or not path.stat().st_mode & 0o040:
            return ""
        group = grp.getgrgid(path.stat().st_gid).gr_name
    except (OSError, KeyError):
        return ""
    return f": members of the group {group} may read it (log in again after joining)"
