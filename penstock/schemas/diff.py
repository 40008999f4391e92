"""`penstock schemas diff`: shows differences as lines for people or as JSON for programs."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from click.shell_completion import CompletionItem

from ground.printable import one_line
from penstock.cli.failures import Failed
from penstock.cli.output import json_option, print_json, say
from penstock.connections.registry import existing_subjects, registry_at, registry_option
from penstock.schemas.arguments import SUBJECT, VERSION, Which, schema_file, subject_options
from schemas.differences import Difference, DifferenceKind, differences
from schemas.evolution.unit_changes import UnitChange, unit_changes
from schemas.folder import ENDING, SchemaFile
from schemas.parsing import AvroSchema
from schemas.registration import Planner
from schemas.registry_client import RegistryClient
from schemas.remote.answers import RegisteredSchema

_SIGNS = {DifferenceKind.ADDED: "+", DifferenceKind.REMOVED: "-", DifferenceKind.CHANGED: "~"}
_COLOURS = {
    DifferenceKind.ADDED: "green",
    DifferenceKind.REMOVED: "red",
    DifferenceKind.CHANGED: "yellow",
}


_MOST_UNIT_CHANGES: Final = 50


def say_differences(found: Iterable[Difference], indent: str = "") -> None:
    for difference in found:
        path = f"{difference.path}: " if difference.path else ""
        say(
            f"{indent}{_SIGNS[difference.kind]} {path}{difference.what}",
            colour=_COLOURS[difference.kind],
        )


def say_unit_changes(changes: Sequence[UnitChange]) -> None:
    """Prints on stderr what happens to old events."""
    for change in changes[:_MOST_UNIT_CHANGES]:
        colour = "red" if change.is_refused else "yellow"
        click.secho(one_line(str(change)), fg=colour, err=True)
    if len(changes) > _MOST_UNIT_CHANGES:
        further_count = len(changes) - _MOST_UNIT_CHANGES
        click.echo(f"{further_count} more fields change their unit", err=True)


def difference_documents(found: Iterable[Difference]) -> list[dict[str, str]]:
    return [
        {"kind": difference.kind, "path": difference.path, "what": difference.what}
        for difference in found
    ]


def _subjects_and_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    subjects = existing_subjects(context, parameter, incomplete)
    return [*map(CompletionItem, subjects), CompletionItem(incomplete, type="file")]


@click.command()
@click.argument("what", type=SUBJECT, metavar="SUBJECT|FILE", shell_complete=_subjects_and_files)
@click.argument("old", type=VERSION, required=False)
@click.argument("new", type=VERSION, required=False)
@subject_options
@registry_option
@json_option
def command(
    *,
    what: str,
    old: Which | None,
    new: Which | None,
    subject: str | None,
    topic: str | None,
    registry: str,
    as_json: bool,
) -> None:
    """Show what changed between two versions of a subject, or from a version to a file (*.avsc).

    Without versions, compares the last two versions, or the latest with the file. A decimal or time
    that changes its unit is also reported on stderr, with the consequence for old events.

    \b
    Example:
        penstock schemas diff page_views-value
        penstock schemas diff page_views-value 3 latest
        penstock schemas diff page_views-value.avsc
    """
    is_file = what.endswith(ENDING)
    if is_file and new is not None:
        raise click.UsageError("a file can be compared with only one version")
    if not is_file and (subject is not None or topic is not None):
        raise click.UsageError(f"--subject and --topic need a file (*{ENDING})")
    file = schema_file(Path(what), subject, topic) if is_file else None
    with registry_at(registry) as client:
        comparison = (
            _between(client, what, old, new) if file is None else _to_file(client, file, old)
        )
    say_unit_changes(comparison.unit_changes)
    if as_json:
        print_json(
            {
                "subject": comparison.subject,
                "old": comparison.old,
                "new": comparison.new,
                "differences": difference_documents(comparison.differences),
            }
        )
        return
    new_words = f"version {comparison.new}" if isinstance(comparison.new, int) else comparison.new
    say(f"{comparison.subject}: version {comparison.old} → {new_words}")
    say_differences(comparison.differences)
    if not comparison.differences:
        say("no difference")


class _Comparison(msgspec.Struct, frozen=True):
    """Two versions of a schema. `new` is a version, or the path of a file."""

    subject: str
    old: int
    new: int | str
    differences: list[Difference]
    unit_changes: list[UnitChange]


def _to_file(client: RegistryClient, file: SchemaFile, old: Which | None) -> _Comparison:
    schema = Planner(client).read(file)
    version = _version(client, file.subject, old or "latest")
    return _compared(file.subject, (version.version, file.path), client.resolved(version), schema)


def _compared(
    subject: str, names: tuple[int, int | str], old: AvroSchema, new: AvroSchema
) -> _Comparison:
    return _Comparison(subject, *names, differences(old, new), unit_changes(old, new))


def _between(
    client: RegistryClient, subject: str, old: Which | None, new: Which | None
) -> _Comparison:
    new_version = _version(client, subject, new or "latest")
    if old is None:
        versions = [
            version for version in client.versions(subject) if version < new_version.version
        ]
        if not versions:
            raise Failed(f"{subject} has no version before {new_version.version}")
        old = versions[-1]
    old_version = _version(client, subject, old)
    names = old_version.version, new_version.version
    return _compared(subject, names, client.resolved(old_version), client.resolved(new_version))


def _version(client: RegistryClient, subject: str, which: Which) -> RegisteredSchema:
    """Looks up a version; a numbered one may be deleted."""
    return client.version(subject, which, deleted=which != "latest")
