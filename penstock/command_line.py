"""`penstock`: the table of all commands, and their exit codes.

A command's module is imported when it is called, so that help appears at once and an agent's host
does not need a broker's dependencies. Results go to stdout, everything else to stderr, and an error
is one line. Exit codes are in the help below and in docs/commands.md.
"""

import errno
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from ground.printable import error_words, one_line
from penstock import __version__
from penstock.cli.completion import VARIABLE, complete
from penstock.cli.failures import CommandError, usage_words
from penstock.cli.lazy_group import Lazy, LazyGroup
from penstock.cli.output import give_up, has_colours, open_streams

NOT_DONE: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
NO_READER: Final = 141

NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT}

SECTIONS: Final = {
    "Begin here": {
        "up": Lazy("penstock.up.command", "Run the whole pipeline on this machine.", "all"),
        "demo": Lazy(
            "penstock.demo.command", "Demonstrate the whole pipeline on this machine.", "all"
        ),
        "status": Lazy("penstock.status.command", "Show what runs, its lag, and problems."),
        "report": Lazy("penstock.report.command", "Report whether every line has arrived."),
        "verify": Lazy(
            "penstock.verify.command", "Check landed files against signed certificates.", "verify"
        ),
        "alert": Lazy(
            "penstock.command_line:alert", "List, acknowledge, silence alerts; test receivers."
        ),
        "size": Lazy("penstock.size.command", "Compute what a site needs: brokers, disks, cores."),
        "gate": Lazy("penstock.command_line:gate", "Check whether the next host may be changed."),
    },
    "Topics, messages, schemas": {
        "topics": Lazy(
            "penstock.command_line:topics", "List, describe, create, alter, delete topics."
        ),
        "groups": Lazy(
            "penstock.command_line:groups", "List, describe, reset, delete consumer groups."
        ),
        "brokers": Lazy("penstock.command_line:brokers", "List, describe, drain, fill brokers."),
        "acls": Lazy("penstock.command_line:acls", "List, add, remove, test ACLs."),
        "produce": Lazy("penstock.topics.produce", "Write lines into a topic."),
        "consume": Lazy("penstock.topics.consume", "Read a topic."),
        "schemas": Lazy(
            "penstock.command_line:schemas", "List, show, check, register, compare schemas."
        ),
    },
    "Who may do what": {
        "quotas": Lazy("penstock.command_line:quotas", "List, set, remove quotas of clients."),
        "users": Lazy("penstock.command_line:users", "List, add, remove users; set passwords."),
        "changes": Lazy("penstock.changes.command", "Show who changed what, and when."),
    },
    "Programs": {
        "agent": Lazy("penstock.services.agent", "Run an agent, or show its status.", "agent"),
        "backfill": Lazy("penstock.backfill.command", "Show archives being read.", "agent"),
        "broker": Lazy("penstock.services.broker", "Run a broker.", "broker"),
        "registry": Lazy("penstock.services.registry", "Run a schema registry.", "registry"),
        "load": Lazy(
            "penstock.services.load.command",
            "Load topics into Hadoop, once or repeatedly.",
            "loader",
        ),
        "compact": Lazy(
            "penstock.services.load.compact", "Join small files of a table's hours.", "loader"
        ),
        "audit": Lazy(
            "penstock.services.audit", "Run an audit; accept faults, retire hosts.", "audit"
        ),
        "mirror": Lazy("penstock.services.mirror", "Copy topics into another cluster.", "mirror"),
        "zookeeper": Lazy(
            "penstock.services.zookeeper", "Run a ZooKeeper on this machine.", "broker"
        ),
    },
    "When something is lost": {
        "backup": Lazy(
            "penstock.command_line:backup", "Save and restore data that only ZooKeeper has."
        ),
    },
    "Settings": {
        "certificates": Lazy(
            "penstock.command_line:certificates",
            "Make, sign, renew, revoke, list, show certificates.",
        ),
        "signing-keys": Lazy(
            "penstock.command_line:signing_keys", "Make, enrol, list, revoke signing keys."
        ),
        "profile": Lazy("penstock.profile.command", "Show the addresses that commands use."),
        "check-config": Lazy("penstock.services.check_config", "Validate a configuration file."),
        "keys": Lazy("penstock.config.keys", "Explain the keys of a configuration."),
        "password-line": Lazy(
            "penstock.connections.password_line", "Print a line for a users file."
        ),
        "completion": Lazy(
            "penstock.cli.completion", "Print a script for your shell's completion."
        ),
    },
}
TOPICS: Final = {
    "Commands": {
        "list": Lazy("penstock.topics.commands:list_topics", "List topics."),
        "describe": Lazy(
            "penstock.topics.commands:describe", "Show one topic's partitions and configs."
        ),
        "create": Lazy("penstock.topics.commands:create", "Create a topic."),
        "alter": Lazy("penstock.topics.commands:alter", "Set configs, or add partitions."),
        "apply": Lazy("penstock.topics.apply", "Create and alter topics as declared in a file."),
        "delete": Lazy("penstock.topics.commands:delete", "Delete topics with their messages."),
        "recover": Lazy(
            "penstock.topics.recover",
            "Rebuild the topics in ZooKeeper after its loss.",
            "broker",
        ),
        "repair": Lazy(
            "penstock.topics.repair",
            "Truncate a damaged partition at the first damage.",
            "broker",
        ),
    }
}
ALERT: Final = {
    "Commands": {
        "list": Lazy("penstock.report.alerts:list_alerts", "List alerts, silences, receivers."),
        "ack": Lazy("penstock.report.alerts:acknowledge", "Acknowledge an alert."),
        "silence": Lazy("penstock.report.alerts:silence", "Mute alerts for a time."),
        "unsilence": Lazy("penstock.report.alerts:unsilence", "End a silence."),
        "test": Lazy("penstock.report.alerts:try_receiver", "Send a test alert.", "audit"),
    }
}
GATE: Final = {
    "Commands": {
        "record": Lazy("penstock.gate.command:record", "Record the state before a change."),
        "check": Lazy("penstock.gate.command:check", "Wait until the state is as good as before."),
    }
}
BACKUP: Final = {
    "Commands": {
        name: Lazy(f"penstock.backup.commands:{name}", does, "broker")
        for name, does in (
            ("make", "Back up data that only ZooKeeper has."),
            ("show", "Show the contents of a backup."),
            ("restore", "Restore a backup."),
        )
    }
}
BROKERS: Final = {
    "Commands": {
        "list": Lazy(
            "penstock.brokers.commands:list_brokers", "List brokers, including those that are down."
        ),
        "describe": Lazy("penstock.brokers.commands:describe", "Show one broker's partitions."),
        "drain": Lazy("penstock.brokers.reassignment:drain", "Move all replicas off a broker."),
        "fill": Lazy(
            "penstock.brokers.reassignment:fill", "Give new brokers their share of replicas."
        ),
        "elect": Lazy("penstock.brokers.election:elect", "Make preferred replicas leaders again."),
    }
}
GROUPS: Final = {
    "Commands": {
        "list": Lazy("penstock.groups.commands:list_groups_command", "List groups."),
        "describe": Lazy("penstock.groups.commands:describe", "Show members and lag of groups."),
        "reset": Lazy("penstock.groups.offset_reset:reset", "Set the offsets of a group."),
        "delete": Lazy("penstock.groups.commands:delete", "Delete groups without members."),
        "delete-offsets": Lazy(
            "penstock.groups.offset_deletion:delete_offsets_command",
            "Delete a group's offsets of topics that it no longer reads.",
        ),
        "export": Lazy("penstock.groups.offset_reset:export", "Print the offsets of groups."),
        "import": Lazy(
            "penstock.groups.offset_reset:import_offsets",
            "Set offsets from an export.",
        ),
    }
}
QUOTAS: Final = {
    "Commands": {
        "list": Lazy("penstock.quotas.commands:list_quotas", "List quotas."),
        "set": Lazy("penstock.quotas.commands:set_quotas", "Set quotas of clients."),
        "remove": Lazy("penstock.quotas.commands:remove", "Remove quotas of clients."),
    }
}
ACLS: Final = {
    "Commands": {
        "list": Lazy("penstock.acls.commands:list_acls", "List ACLs."),
        "add": Lazy("penstock.acls.commands:add", "Add ACLs of a principal."),
        "apply": Lazy("penstock.acls.apply", "Add and remove ACLs as declared in a file."),
        "remove": Lazy("penstock.acls.commands:remove", "Remove ACLs of a principal."),
        "test": Lazy("penstock.acls.commands:test", "Test whether a principal may do something."),
    }
}
SCHEMAS: Final = {
    "Commands": {
        "list": Lazy("penstock.schemas.subjects:list_subjects", "List subjects."),
        "show": Lazy("penstock.schemas.subjects:show", "Show one schema."),
        "new": Lazy("penstock.schemas.files:new", "Write a first schema for a topic into a file."),
        "check": Lazy("penstock.schemas.files:check", "Check whether a schema may be registered."),
        "register": Lazy("penstock.schemas.files:register_schema", "Register a schema."),
        "apply": Lazy("penstock.schemas.apply", "Register the changed schemas of a folder."),
        "diff": Lazy("penstock.schemas.diff", "Show what changed between two versions."),
        "config": Lazy("penstock.schemas.subjects:config", "Show or set compatibility levels."),
        "delete": Lazy("penstock.schemas.subjects:delete", "Delete a subject, or one version."),
    }
}
USERS: Final = {
    "Commands": {
        "list": Lazy("penstock.users.commands:list_users", "List users."),
        "add": Lazy("penstock.users.commands:add", "Add a user."),
        "password": Lazy("penstock.users.commands:password", "Change a user's password."),
        "apply": Lazy("penstock.users.apply", "Add and remove users as declared in a file."),
        "remove": Lazy("penstock.users.commands:remove", "Remove a user."),
    }
}
CERTIFICATES: Final = {
    "Commands": {
        name: Lazy(f"penstock.certificates.commands:{where}", does)
        for name, where, does in (
            ("make", "make", "Create an authority."),
            ("sign", "sign", "Sign a certificate with a new key."),
            ("renew", "renew", "Renew certificates."),
            ("revoke", "revoke", "Revoke a certificate."),
            ("list", "list_signed", "List an authority's certificates."),
            ("show", "show", "Show the certificates in files."),
        )
    }
}

SIGNING_KEYS: Final = {
    "Commands": {
        name: Lazy(f"penstock.signing_keys.commands:{where}", does)
        for name, where, does in (
            ("make", "make_key", "Make a program's key before its first start."),
            ("enrol", "enrol_keys", "Enrol keys of a host."),
            ("list", "list_keys", "List enrolled keys."),
            ("revoke", "revoke_keys", "Revoke keys from a time on."),
        )
    }
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def penstock() -> None:
    """Penstock carries logs from files to Hadoop and proves that every line arrived.

    Exit code 0: done; 1: failed, the line on stderr says why; 2: wrong usage or configuration; 130:
    interrupted; 141: the reader of the output has gone. Commands with further codes name them in
    their help.

    \b
    Example:
        penstock demo
        penstock up --follow '/var/log/*.log'
        penstock status
        penstock report --day today
    """


@click.group(cls=LazyGroup, sections=TOPICS)
def topics() -> None:
    """List and change the topics of a cluster, Apache Kafka included.

    \b
    Example:
        penstock topics create page_views --partitions 8 --config retention.ms=86400000
        penstock topics describe page_views
    """


@click.group(cls=LazyGroup, sections=ALERT)
def alert() -> None:
    """List the alerts of an audit, acknowledge and silence them, and test receivers.

    \b
    Example:
        penstock alert list
        penstock alert ack 3f0c9a1d5b7e --reason "web-3 is being repaired"
        penstock alert silence --host 'web-*' --for 2h --reason "rack 4 is moved"
        penstock alert test on-call --config audit.yaml
    """


@click.group(cls=LazyGroup, sections=GATE)
def gate() -> None:
    """Check during a rolling change whether the next host may be changed.

    \b
    Example:
        penstock gate record before.json
        penstock gate check --broker 2 --baseline before.json --canary /var/log/penstock/canary.log
    """


@click.group(cls=LazyGroup, sections=BACKUP)
def backup() -> None:
    """Back up and restore the data of a cluster that only ZooKeeper has.

    \b
    Example:
        penstock backup make zookeeper.json --zookeeper zk1:2181/penstock
        penstock backup show zookeeper.json
    """


@click.group(cls=LazyGroup, sections=BROKERS)
def brokers() -> None:
    """Show the brokers of a cluster, and move replicas, Apache Kafka included.

    \b
    Example:
        penstock brokers list
        penstock brokers describe 2 --behind
        penstock brokers drain 3 --throttle 20e6
    """


@click.group(cls=LazyGroup, sections=GROUPS)
def groups() -> None:
    """Show consumer groups and their lag, and reset offsets, Apache Kafka included.

    \b
    Example:
        penstock groups describe billing
        penstock groups reset billing --all-topics --by-duration 2h --dry-run
    """


@click.group(cls=LazyGroup, sections=QUOTAS)
def quotas() -> None:
    """List and change the quotas of clients, Apache Kafka included.

    \b
    Example:
        penstock quotas set --client-id '*' --produce 10e6
        penstock quotas list
    """


@click.group(cls=LazyGroup, sections=ACLS)
def acls() -> None:
    """List and change the ACLs of a cluster, Apache Kafka included.

    A broker enforces ACLs if its configuration has `authorization`.

    \b
    Example:
        penstock acls add web-agents --producer --topic page_views
        penstock acls test web-agents write topic:page_views
    """


@click.group(cls=LazyGroup, sections=SCHEMAS)
def schemas() -> None:
    """List and change the schemas of a registry, Confluent's included.

    \b
    Example:
        penstock schemas new page_views
        penstock schemas check page_views-value.avsc
        penstock schemas register page_views-value.avsc
    """


@click.group(cls=LazyGroup, sections=USERS)
def users() -> None:
    """List and change the users who log in with a password, Apache Kafka included.

    \b
    Example:
        penstock users add alice
        penstock users list
    """


@click.group(cls=LazyGroup, sections=CERTIFICATES)
def certificates() -> None:
    """Run a small certificate authority for TLS between all programs.

    \b
    Example:
        penstock certificates make ./authority
        penstock certificates sign broker-1 --host broker-1.example --authority ./authority
        penstock certificates list --authority ./authority --warn-days 30
    """


@click.group(cls=LazyGroup, sections=SIGNING_KEYS)
def signing_keys() -> None:
    """Decide whose signed statements an audit believes, by a folder of public keys.

    \b
    Example:
        penstock signing-keys enrol web-1 --key signing-key.pub --keys /etc/penstock/keys
        penstock signing-keys list --keys /etc/penstock/keys
    """


def main() -> None:
    """Runs the command that the arguments name, and exits."""
    open_streams()
    completion = os.environ.get(VARIABLE)
    sys.exit(complete(penstock, completion) if completion else _run())


def _run() -> int:
    try:
        # Not click's own main(): that has its own idea of errors, Ctrl-C and closed pipes.
        colours = None if has_colours() else False  # None: on a terminal only
        with penstock.make_context("penstock", sys.argv[1:], color=colours) as context:
            result = penstock.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as exit_:  # --help, --version
        return exit_.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return WRONG_USAGE
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else _command_path(sys.argv[1:])
        return _say(f"{command}: {usage_words(error)} (see {command} --help)", code=WRONG_USAGE)
    except CommandError as error:
        lines = [line or error_words(error.__context__ or error) for line in error.lines]
        return _say(*(f"penstock: {line}" for line in lines), code=error.exit_code)
    except click.ClickException as error:
        return _say(f"penstock: {error.format_message()}", code=error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        give_up(sys.stdout)
        return NO_READER
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        give_up(sys.stdout)
        return _say(f"penstock: {error.filename or 'output'}: {error.strerror}", code=NOT_DONE)
    return result if isinstance(result, int) else 0


def _command_path(words: Sequence[str]) -> str:
    """The command that these words begin with, as click does not name it."""
    path = "penstock"
    group: object = penstock
    for word in words:
        if not isinstance(group, LazyGroup) or word not in group.table:
            break
        path = f"{path} {word}"
        module, _, name = group.table[word].where.partition(":")
        group = globals().get(name) if module == __name__ else None
    return path


def _say(*messages: str, code: int) -> int:
    for message in messages:
        print(one_line(" ".join(message.split())), file=sys.stderr)
    return code
