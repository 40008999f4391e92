"""`penstock schemas apply`: registers the changed schemas of a folder.

An optional file `schemas.yaml` in the folder sets levels of compatibility.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from penstock.cli.failures import Failed, WrongConfiguration
from penstock.cli.output import json_option, print_json, say
from penstock.config.configuration import ConfigurationError, load
from penstock.connections.registry import registry_at, registry_option
from penstock.schemas.diff import difference_documents, say_differences, say_unit_changes
from penstock.schemas.files import force_option, require_readable, why_no_event
from schemas.compatibility import Level
from schemas.errors import InvalidSchema, SchemaError
from schemas.folder import SchemaFile, read_folder
from schemas.registration import Outcome, Planner, RegistrationPlan, register
from schemas.registry_client import RegistryClient
from schemas.remote.answers import RegisteredSchema

FILE: Final = "schemas.yaml"


class SubjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    compatibility: Level | None = None


class FolderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in `schemas.yaml`. `compatibility` applies to each subject that has no level
    under `subjects`."""

    compatibility: Level | None = None
    subjects: dict[str, SubjectSettings] = {}

    def levels(self, files: Iterable[SchemaFile]) -> dict[str, Level]:
        """Returns the levels to set, by subject; other subjects keep their levels."""
        subjects = {file.subject for file in files}
        if unknown_names := sorted(self.subjects.keys() - subjects):
            raise WrongConfiguration(f"{FILE}: subjects: no file is named {unknown_names[0]}.avsc")
        levels = {}
        for name in subjects:
            level = self.subjects.get(name, SubjectSettings()).compatibility or self.compatibility
            if level is not None:
                levels[name] = level
        return levels


def folder_settings(folder: Path) -> FolderSettings:
    """Reads `schemas.yaml`, which may be missing. Raises WrongConfiguration."""
    path = folder / FILE
    if not path.exists() and not path.is_symlink():
        return FolderSettings()
    if not path.resolve().is_relative_to(folder.resolve()):
        raise WrongConfiguration(f"{path} is a link to a path outside the folder")
    try:
        return load(FolderSettings, path)
    except ConfigurationError as error:
        raise WrongConfiguration(*error.mistakes) from None


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--dry-run", is_flag=True, help="Show the changes, and make none.")
@force_option
@registry_option
@json_option
def command(*, folder: Path, dry_run: bool, force: bool, registry: str, as_json: bool) -> None:
    """Register the changed schemas of a folder: DIR/**/SUBJECT.avsc.

    All are checked first. If any would be refused, none is registered, and the exit code is 1.

    \b
    Example:
        penstock schemas apply schemas --dry-run
        penstock schemas apply schemas
    """
    files = _read(folder)
    levels = folder_settings(folder).levels(files)
    with registry_at(registry) as client:
        planner = Planner(client, levels)
        plans = [planner.plan(file) for file in files]
        refused_plans = [plan for plan in plans if plan.outcome is Outcome.REFUSED]
        for plan in plans:
            say_unit_changes(plan.unit_changes)
            require_readable(plan, force=force)
        registered_schemas: dict[str, RegisteredSchema] = {}
        try:
            if not refused_plans and not dry_run:
                _register(client, plans, registered_schemas)
        finally:
            # Also reports what was registered before a failure.
            _report(plans, registered_schemas, dry_run=dry_run, as_json=as_json)
    if refused_plans:
        verb = "would be refused" if dry_run else "refused, and nothing was registered"
        raise Failed(f"{len(refused_plans)} of {len(plans)} schemas {verb}")


def _read(folder: Path) -> list[SchemaFile]:
    try:
        files = read_folder(folder)
    except OSError as error:
        raise Failed(f"{error.filename or folder}: {error.strerror or error}") from None
    except InvalidSchema as error:
        raise Failed(str(error)) from None
    if not files:
        raise Failed(f"{folder}: no file is named SUBJECT.avsc")
    return files


def _register(
    client: RegistryClient, plans: list[RegistrationPlan], done: dict[str, RegisteredSchema]
) -> None:
    for plan in plans:
        try:
            done[plan.file.subject] = register(client, plan, done)
        except SchemaError as error:
            raise Failed(f"{plan.file.subject}: {error}") from None


def _report(
    plans: list[RegistrationPlan],
    done: Mapping[str, RegisteredSchema],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    if as_json:
        print_json({"dry_run": dry_run, "schemas": [_document(plan, done) for plan in plans]})
        return
    for plan in plans:
        _say(plan, done.get(plan.file.subject))


def _document(plan: RegistrationPlan, done: Mapping[str, RegisteredSchema]) -> dict[str, Any]:
    schema = done.get(plan.file.subject) or plan.registered
    change = plan.level_change
    return {
        "file": plan.file.path,
        "subject": plan.file.subject,
        "outcome": plan.outcome,
        "applied": plan.file.subject in done,
        "version": schema.version if schema else None,
        "id": schema.id if schema else None,
        "level": {"old": change.before, "new": change.after} if change else None,
        "differences": difference_documents(plan.differences),
        "reasons": list(plan.reasons),
        "no_event": why_no_event(plan),
    }


def _say(plan: RegistrationPlan, done: RegisteredSchema | None) -> None:
    schema = done or plan.registered
    detail = f": version {schema.version}, id {schema.id}" if schema else ""
    if plan.outcome is Outcome.REFUSED:
        detail = f" ({plan.file.path})"
    if plan.registered and plan.latest and plan.latest.version > plan.registered.version:
        detail += f"; the latest is version {plan.latest.version}, and stays the latest"
    colour = "red" if plan.outcome is Outcome.REFUSED else None
    say(f"{plan.outcome:<9}  {plan.file.subject}{detail}", colour=colour)
    if plan.level_change:
        old_level = plan.level_change.before or "no level of its own"
        say(f"  ~ compatibility: {old_level} → {plan.level_change.after}", colour="yellow")
    say_differences(plan.differences, indent="  ")
    for reason in plan.reasons:
        say(f"  {reason}", colour=colour)
    if (event_problem := why_no_event(plan)) and plan.outcome is not Outcome.UNCHANGED:
        say(f"  not an event for Penstock's agent and loader: {event_problem}", colour="yellow")
