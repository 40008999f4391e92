"""`penstock`: the commands, and how each of them ends.

A command's module is imported when it is called, so that help is there at once and an agent host
needs nothing of what only a broker needs. Results go to stdout, everything else to stderr, and an
error is one line.

    exit code   0   done
                1   not done; the line on stderr says why
                2   wrong usage, or a wrong configuration
              3–8   of `penstock load`, see docs/loader.md
              1, 2, 4   of `penstock report`, see docs/audit.md
              130   interrupted (Ctrl-C)
              141   whoever read the output went away
"""

import os
import sys
from typing import Final

import click

from penstock import __version__
from penstock.lazy_group import Lazy, LazyGroup

WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
NO_READER: Final = 141

COMMANDS: Final = {
    "agent": Lazy("penstock.commands.agent", "Run one agent, or ask the one here.", "agent"),
    "broker": Lazy("penstock.commands.broker", "Run one broker.", "broker"),
    "registry": Lazy("penstock.commands.registry", "Run one schema registry.", "registry"),
    "load": Lazy("penstock.commands.load", "Load topics into Hadoop, once or often.", "loader"),
    "audit": Lazy("penstock.commands.audit", "Run one audit, or tell it something.", "audit"),
    "report": Lazy("penstock.commands.report", "Say whether every line has arrived."),
    "zookeeper": Lazy("penstock.commands.zookeeper", "Run a ZooKeeper here.", "broker"),
    "topics": Lazy("penstock.commands.topics", "List, describe, create, alter, delete topics."),
    "produce": Lazy("penstock.commands.produce", "Write lines into a topic."),
    "consume": Lazy("penstock.commands.consume", "Read a topic."),
    "schemas": Lazy("penstock.commands.schemas", "List, show, check, register, compare schemas."),
    "check-config": Lazy("penstock.commands.check_config", "Validate a configuration file."),
    "demo": Lazy("penstock.commands.demo", "Show a broker at work on this machine.", "broker"),
}


@click.group(cls=LazyGroup, table=COMMANDS)
@click.version_option(__version__, message="%(prog)s %(version)s")
def penstock() -> None:
    """Penstock carries logs from files to Hadoop and proves that every line arrived.

    \b
    Example:
        penstock broker --config broker.yaml
        tail -F app.log | penstock produce app_logs
        penstock consume app_logs --from beginning
    """


def main() -> None:
    """Runs the command that the arguments name, and exits."""
    sys.exit(_run())


def _run() -> int:
    try:
        # Not click's own main(): that has its own idea of errors, Ctrl-C and closed pipes.
        with penstock.make_context("penstock", sys.argv[1:]) as context:
            result = penstock.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as asked:  # --help, --version
        return asked.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return WRONG_USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "penstock"
        return _say(f"{command}: {error.format_message()} (see {command} --help)", WRONG_USAGE)
    except click.ClickException as error:
        return _say(f"penstock: {error.format_message()}", error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered would fail again when Python flushes it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    return result if isinstance(result, int) else 0


def _say(message: str, code: int) -> int:
    print(" ".join(message.split()), file=sys.stderr)
    return code
