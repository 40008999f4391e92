"""`penstock password-line`: prints a line with a name and a password's hash, for a file of
users."""

from pathlib import Path

import click

from ground.logins.login_files import check_name
from ground.logins.password_file import SlowHash
from ground.logins.secrets import NoSecret, Secret
from penstock.cli.failures import Failed

_SHORTEST = 8
_LONGEST = 1_024


@click.command()
@click.argument("name")
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file with the password. Without it, the command prompts for one.",
)
def command(*, name: str, password_file: Path | None) -> None:
    """Print the line that lets NAME log in with a password: `name:scrypt:…`.

    Add the line to the file that `users_file` names in the configuration of a registry or an audit.
    It contains a hash of the password.

    \b
    Example:
        penstock password-line alice
        penstock password-line agent --password-file agent-password
    """
    try:
        check_name(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if password_file is None:
        password: str = click.prompt(
            "Password", hide_input=True, confirmation_prompt=True, err=True
        )
    else:
        try:
            password = Secret(file=str(password_file)).read()
        except NoSecret as error:
            raise Failed(str(error)) from None
    if not _SHORTEST <= len(password) <= _LONGEST:
        raise Failed(f"a password must have {_SHORTEST} to {_LONGEST:,} characters")
    click.echo(f"{name}:{SlowHash.of(password)}")
