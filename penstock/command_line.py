"""`penstock`: the commands, and how each of them ends.

A command's module is imported when it is called, so that help is there at once and an agent host
needs nothing of what only a broker needs. Results go to stdout, everything else to stderr, and an
error is one line. Exit codes are in the help, below, and in docs/commands.md.
"""

import errno
import os
import sys
from typing import Final

import click

from penstock import __version__
from penstock.completion import VARIABLE, complete
from penstock.failures import usage_words
from penstock.lazy_group import Lazy, LazyGroup
from penstock.output import has_colours, one_line
from penstock.streams import give_up, open_streams

NOT_DONE: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
NO_READER: Final = 141

NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT}

SECTIONS: Final = {
    "Begin here": {
        "up": Lazy("penstock.commands.up", "Run the whole pipeline on this machine.", "all"),
        "demo": Lazy("penstock.commands.demo", "Show it all at work on this machine.", "all"),
        "status": Lazy("penstock.commands.status", "Show what runs, how far it is, what is wrong."),
        "report": Lazy("penstock.commands.report", "Say whether every line has arrived."),
    },
    "Topics, messages, schemas": {
        "topics": Lazy("penstock.commands.topics", "List, describe, create, alter, delete topics."),
        "produce": Lazy("penstock.commands.produce", "Write lines into a topic."),
        "consume": Lazy("penstock.commands.consume", "Read a topic."),
        "schemas": Lazy(
            "penstock.commands.schemas", "List, show, check, register, compare schemas."
        ),
    },
    "Programs": {
        "agent": Lazy("penstock.commands.agent", "Run one agent, or ask the one here.", "agent"),
        "broker": Lazy("penstock.commands.broker", "Run one broker.", "broker"),
        "registry": Lazy("penstock.commands.registry", "Run one schema registry.", "registry"),
        "load": Lazy("penstock.commands.load", "Load topics into Hadoop, once or often.", "loader"),
        "audit": Lazy("penstock.commands.audit", "Run one audit, or tell it something.", "audit"),
        "zookeeper": Lazy("penstock.commands.zookeeper", "Run a ZooKeeper here.", "broker"),
    },
    "Settings": {
        "check-config": Lazy("penstock.commands.check_config", "Validate a configuration file."),
        "keys": Lazy("penstock.commands.keys", "Explain the keys of a configuration."),
        "completion": Lazy("penstock.commands.completion", "Complete commands in your shell."),
    },
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def penstock() -> None:
    """Penstock carries logs from files to Hadoop and proves that every line arrived.

    Exit code 0: done; 1: not done, the line on stderr says why; 2: wrong usage, or a wrong
    configuration; 130: interrupted; 141: whoever read the output went away. Commands that have
    others say so in their help.

    \b
    Example:
        penstock demo
        penstock up --follow '/var/log/*.log'
        penstock status
        penstock report --day today
    """


def main() -> None:
    """Runs the command that the arguments name, and exits."""
    open_streams()
    asked = os.environ.get(VARIABLE)
    sys.exit(complete(penstock, asked) if asked else _run())


def _run() -> int:
    try:
        # Not click's own main(): that has its own idea of errors, Ctrl-C and closed pipes.
        colours = None if has_colours() else False  # None: as it goes to a terminal, or not
        with penstock.make_context("penstock", sys.argv[1:], color=colours) as context:
            result = penstock.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as asked:  # --help, --version
        return asked.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return WRONG_USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "penstock"
        return _say(f"{command}: {usage_words(error)} (see {command} --help)", WRONG_USAGE)
    except click.ClickException as error:
        return _say(f"penstock: {error.format_message()}", error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        give_up(sys.stdout)
        return NO_READER
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        give_up(sys.stdout)
        return _say(f"penstock: {error.filename or 'output'}: {error.strerror}", NOT_DONE)
    return result if isinstance(result, int) else 0


def _say(message: str, code: int) -> int:
    print(one_line(" ".join(message.split())), file=sys.stderr)
    return code
