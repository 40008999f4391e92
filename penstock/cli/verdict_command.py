"""Commands whose exit codes are verdicts, as those of `penstock report`.

As 1 and 2 are verdicts, all errors of such a command, wrong usage included, have an exit code of
their own.
"""

from typing import Any, Final

import click

from penstock.cli.failures import CommandError, Failed, usage_words

COMPLETE: Final = 0
FAULTY: Final = 1
PENDING: Final = 2
UNKNOWN: Final = 3
NO_VERDICT: Final = 4
NOT_LOADED: Final = 5
TOO_FEW: Final = 6


class NoVerdict(Failed):
    """There is no verdict on whether every line has arrived."""

    exit_code = NO_VERDICT


class VerdictCommand(click.Command):
    """A command whose errors have the exit code of NoVerdict."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            raise _no_verdict(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _no_verdict(error) from None


def _no_verdict(error: click.ClickException) -> NoVerdict:
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path.removeprefix("penstock ") if error.ctx else ""
        return NoVerdict(f"{usage_words(error)} (see penstock {command} --help)")
    lines = error.lines if isinstance(error, CommandError) else (error.format_message(),)
    return NoVerdict(*lines)
