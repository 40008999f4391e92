"""`penstock completion`."""

import click

from penstock.completion import SHELLS, VARIABLE
from penstock.shell_scripts import completer


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, *, shell: str) -> None:
    """Print the script that makes a shell complete commands, options, topics and subjects.

    Put it where the shell looks for such scripts; docs/commands.md says where that is. Topics and
    subjects are asked for at --bootstrap and --registry, or where PENSTOCK_BOOTSTRAP and
    PENSTOCK_REGISTRY say. What has not answered within a second is left out.

    \b
    Example:
        eval "$(penstock completion bash)"
        penstock completion fish | source
    """
    click.echo(completer(shell, context.find_root().command, VARIABLE).source(), nl=False)
