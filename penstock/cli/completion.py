"""Completion in the shell, and `penstock completion`.

The shell's script (`penstock completion bash`) runs `penstock` with the typed line in environment
variables, as click defines them. Errors are silent, as they would disturb the line. Names from a
cluster or a registry become words of a shell, so only those are offered that need no quotes.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from types import FrameType

    from penstock.cli.lazy_group import Lazy

VARIABLE: Final = "_PENSTOCK_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
_PATIENCE_SECONDS: Final = 1.0  # the user is waiting
_PLAIN: Final = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*", re.ASCII)
_MOST: Final = 1000


class _TookTooLong(Exception):
    """Fetching the words took too long. Not a TimeoutError, since clients retry after one."""


def complete(group: click.Group, instruction: str) -> int:
    """Prints the possible words. `instruction` is the value of the completion variable, such as
    bash_complete."""
    # Imported for completion only.
    from penstock.cli.shell_scripts import completer  # noqa: PLC0415

    shell, _, _ = instruction.partition("_")
    if shell not in SHELLS:
        return 1
    with suppress(click.ClickException):  # the line so far may be invalid
        click.echo(completer(shell, group, VARIABLE, _stand_in).complete())
    return 0


def _stand_in(lazy: "Lazy") -> click.Command:
    # Imported here because names of commands do not need it.
    from penstock.cli.outlines import outlined  # noqa: PLC0415

    return outlined(lazy)


def words(names: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    """Returns the names that begin with `incomplete`; none if fetching them fails or takes too
    long.

    Internal topics such as _audit are offered only after their first character.
    """
    candidates: Iterable[str] = ()
    with _for_a_moment(), suppress(click.ClickException):
        candidates = names()
    matches = (
        name for name in candidates if name.startswith(incomplete) and _PLAIN.fullmatch(name)
    )
    return sorted(name for name in matches if incomplete or not name.startswith("_"))[:_MOST]


@contextmanager
def _for_a_moment() -> Iterator[None]:
    """Abandon the body when the time is over, with its open connections."""
    # Imported here because only requests to a cluster need them.
    import signal  # noqa: PLC0415
    import warnings  # noqa: PLC0415

    def give_up(_: int, __: "FrameType | None") -> None:
        raise _TookTooLong

    earlier_handler = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_SECONDS)
    try:
        with warnings.catch_warnings(), suppress(_TookTooLong):
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier_handler)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, *, shell: str) -> None:
    """Print the shell script that completes commands, options, topics and subjects.

    Put it where the shell looks for such scripts (docs/commands.md). Topics and subjects come from
    the cluster and the registry that the command would use; none are offered unless these answer
    within a second.

    \b
    Example:
        eval "$(penstock completion bash)"
        penstock completion fish | source
    """
    # Imported for completion only.
    from penstock.cli.shell_scripts import completer  # noqa: PLC0415

    click.echo(completer(shell, context.find_root().command, VARIABLE).source(), nl=False)
