"""What a shell asks for when somebody presses Tab, and `penstock completion`.

The shell's script (`penstock completion bash`) runs `penstock` with what has been typed in
variables of the environment, click's own way. Whatever goes wrong then, nothing is said: an error
in the middle of what somebody types would only be in the way. Names that come from a cluster or a
registry become words of a shell, so only those are offered that every shell takes as they are.
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
_PATIENCE_SECONDS: Final = 1.0  # somebody waits, with a finger on the key
_PLAIN: Final = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*", re.ASCII)
_MOST: Final = 1000


class _TookTooLong(Exception):
    """Nobody who asks takes it for a time limit of their own, and asks again."""


def complete(group: click.Group, asked: str) -> int:
    """Prints what could come next. `asked` is the variable's value, such as bash_complete."""
    # Only completion needs it.
    from penstock.cli.shell_scripts import completer  # noqa: PLC0415

    shell, _, _ = asked.partition("_")
    if shell not in SHELLS:
        return 1
    with suppress(click.ClickException):  # what a command has against the line so far
        click.echo(completer(shell, group, VARIABLE, _stand_in).complete())
    return 0


def _stand_in(lazy: "Lazy") -> click.Command:
    # Who completes the name of a command does without it.
    from penstock.cli.outlines import outlined  # noqa: PLC0415

    return outlined(lazy)


def words(names: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    """Those names that can come next; none if somebody would wait for them, or asking fails.

    Penstock's own topics, _audit and the like, only come where they were begun.
    """
    asked: Iterable[str] = ()
    with _for_a_moment(), suppress(click.ClickException):
        asked = names()
    found = (name for name in asked if name.startswith(incomplete) and _PLAIN.fullmatch(name))
    return sorted(name for name in found if incomplete or not name.startswith("_"))[:_MOST]


@contextmanager
def _for_a_moment() -> Iterator[None]:
    """What takes longer than somebody would wait is given up, and whatever it has open with it."""
    # Only whoever asks a cluster needs them.
    import signal  # noqa: PLC0415
    import warnings  # noqa: PLC0415

    def give_up(_: int, __: "FrameType | None") -> None:
        raise _TookTooLong

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_SECONDS)
    try:
        with warnings.catch_warnings(), suppress(_TookTooLong):
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, *, shell: str) -> None:
    """Print the script that makes a shell complete commands, options, topics and subjects.

    Put it where the shell looks for such scripts; docs/commands.md says where that is. Topics and
    subjects come from the cluster and the registry that the command would use. If they do not
    answer within a second, there are none.

    \b
    Example:
        eval "$(penstock completion bash)"
        penstock completion fish | source
    """
    # Only completion needs it.
    from penstock.cli.shell_scripts import completer  # noqa: PLC0415

    click.echo(completer(shell, context.find_root().command, VARIABLE).source(), nl=False)
