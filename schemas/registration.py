"""Plans the registration of schemas without changing anything, and carries it out.

A schema is refused if it is invalid, if the registry is read-only, or if the subject's
compatibility level forbids it. The registry's own verdict is used where it can give one. Where it
cannot (the level is to change as well, or the schema needs another that has no version yet),
schemas/compatibility.py decides, which also supplies the explanations.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from schemas.compatibility import Level, explain
from schemas.differences import Difference, differences
from schemas.errors import InvalidSchema, RegistryError, RegistryRefused
from schemas.evolution.unit_changes import UnitChange, unit_changes
from schemas.folder import Needed, SchemaFile
from schemas.parsing import AvroSchema, parse
from schemas.registry_client import RegistryClient
from schemas.remote.answers import Reference, RegisteredSchema

__all__ = ["LevelChange", "Outcome", "Planner", "RegistrationPlan", "in_order", "register"]

_WRITABLE: Final = "READWRITE"
_UNPROCESSABLE: Final = 422


class Outcome(StrEnum):
    """The outcome of planning or registering a schema."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


class LevelChange(msgspec.Struct, frozen=True):
    """A change of a compatibility level. `before` is None if the subject had no level of its
    own."""

    before: str | None
    after: Level


class RegistrationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The planned outcome for one schema, with reasons.

    `pending`: needed schemas of the same folder that have no version yet. `registered`: the
    existing version, if the schema is unchanged. `unit_changes`: from any earlier version.
    """

    file: SchemaFile
    outcome: Outcome
    schema: AvroSchema | None = None
    references: tuple[Reference, ...] = ()
    pending: tuple[Needed, ...] = ()
    latest: RegisteredSchema | None = None
    registered: RegisteredSchema | None = None
    level_change: LevelChange | None = None
    differences: tuple[Difference, ...] = ()
    unit_changes: tuple[UnitChange, ...] = ()
    reasons: tuple[str, ...] = ()


class Planner:
    """Plans schemas one by one. The schemas of the folder that a schema needs must be planned
    before it."""

    def __init__(self, registry: RegistryClient, levels: Mapping[str, Level] | None = None) -> None:
        """`levels`: the levels that subjects are to get."""
        self._registry = registry
        self._levels = levels or {}
        self._plans: dict[str, RegistrationPlan] = {}

    def plan(self, file: SchemaFile) -> RegistrationPlan:
        """Plans a schema. Raises RegistryError if the registry does not answer; other errors are
        outcomes."""
        try:
            plan = self._plan(file)
        except InvalidSchema as error:
            plan = RegistrationPlan(file=file, outcome=Outcome.REFUSED, reasons=(str(error),))
        except RegistryRefused as error:
            if error.status != _UNPROCESSABLE:
                raise
            plan = RegistrationPlan(file=file, outcome=Outcome.REFUSED, reasons=(error.message,))
        self._plans[file.subject] = plan
        return plan

    def read(self, file: SchemaFile) -> AvroSchema:
        """Returns the schema, with the latest versions of its references."""
        return parse(file.text, self._texts([], self._references(file)))

    def _plan(self, file: SchemaFile) -> RegistrationPlan:
        needed_plans = [
            self._plans[needed_type.subject] for needed_type in file.needs if needed_type.inside
        ]
        if refused_paths := [plan.file.path for plan in needed_plans if plan.schema is None]:
            paths = ", ".join(refused_paths)
            raise InvalidSchema(f"the schema needs {paths}, which cannot be registered")
        latest_version = self._registry.latest(file.subject)
        pending_types = tuple(
            needed_type
            for needed_type in file.needs
            if needed_type.inside and not self._version(needed_type)
        )
        # Unless something else changes, a schema keeps referring to the same versions.
        used_references = latest_version.references if latest_version else ()
        registered_version = None
        for references in dict.fromkeys(
            (self._references(file, used_references), self._references(file))
        ):
            schema = parse(file.text, self._texts(needed_plans, references))
            if not pending_types:
                registered_version = self._registry.lookup(
                    file.subject, file.text, in_order(references, latest_version)
                )
            if registered_version is not None:
                break
        plan = RegistrationPlan(
            file=file,
            outcome=Outcome.UNCHANGED
            if registered_version
            else Outcome.CHANGED
            if latest_version
            else Outcome.NEW,
            schema=schema,
            references=references,
            pending=pending_types,
            latest=latest_version,
            registered=registered_version,
            level_change=self._level_change(file.subject),
            differences=() if registered_version else self._differences(latest_version, schema),
        )
        if reasons := tuple(self._objections(plan)):
            return replace(plan, outcome=Outcome.REFUSED, reasons=reasons)
        return replace(plan, unit_changes=self._unit_changes(plan))

    def _version(self, needed: Needed) -> int | None:
        """The version that a schema of this folder already has."""
        registered_version = self._plans[needed.subject].registered
        return registered_version.version if registered_version else None

    def _references(
        self, file: SchemaFile, used: Iterable[Reference] = ()
    ) -> tuple[Reference, ...]:
        """References to the latest versions, or to those that were used before."""
        old_references = {reference.name: reference for reference in used}
        references = []
        for needed_type in file.needs:
            if needed_type.inside:
                if version := self._version(needed_type):
                    references.append(Reference(needed_type.name, needed_type.subject, version))
            elif needed_type.name in old_references:
                references.append(old_references[needed_type.name])
            elif latest_version := self._registry.latest(needed_type.subject):
                references.append(
                    Reference(needed_type.name, needed_type.subject, latest_version.version)
                )
            else:
                raise InvalidSchema(
                    f"{needed_type.name} is not defined here, and the registry has no "
                    f"subject {needed_type.subject}"
                )
        return tuple(references)

    def _texts(
        self, inside: Iterable[RegistrationPlan], references: Iterable[Reference]
    ) -> list[str]:
        """The texts of all references, each after those that it needs itself."""
        schemas = [plan.schema for plan in inside if plan.schema is not None]
        own_subjects = {plan.file.subject for plan in inside}
        other_references = [
            reference for reference in references if reference.subject not in own_subjects
        ]
        texts = [text for schema in schemas for text in (*schema.references, schema.text)]
        return list(dict.fromkeys([*self._registry.texts_of(other_references), *texts]))

    def _level_change(self, subject: str) -> LevelChange | None:
        level = self._levels.get(subject)
        if level is None:
            return None
        old_level = self._registry.own_level(subject)
        return None if old_level == level else LevelChange(old_level, level)

    def _differences(
        self, latest: RegisteredSchema | None, schema: AvroSchema
    ) -> tuple[Difference, ...]:
        if latest is None:
            return ()
        return tuple(differences(self._registry.resolved(latest), schema))

    def _unit_changes(self, plan: RegistrationPlan) -> tuple[UnitChange, ...]:
        """Tables are read with the latest schema, however old an event is: so all versions count,
        at any level."""
        if plan.latest is None or plan.registered or plan.schema is None:
            return ()
        subject = plan.file.subject
        changes: dict[UnitChange, None] = {}
        for version_number in reversed(self._registry.versions(subject)):
            version = self._registry.resolved(self._registry.version(subject, version_number))
            changes |= dict.fromkeys(unit_changes(version, plan.schema))
        return tuple(changes)

    def _objections(self, plan: RegistrationPlan) -> Iterator[str]:
        """The reasons why it would be refused; empty if it would not."""
        if plan.registered and not plan.level_change:
            return
        subject = plan.file.subject
        mode = self._registry.mode(subject)
        if mode != _WRITABLE:
            yield f"the registry accepts no schemas of {subject}: its mode is {mode}"
        elif not plan.registered:
            yield from self._incompatibilities(plan)

    def _incompatibilities(self, plan: RegistrationPlan) -> Iterator[str]:
        file = plan.file
        if plan.pending or plan.level_change:
            yield from self._explained(plan)
            return
        references = in_order(plan.references, plan.latest)
        verdict = self._registry.check(file.subject, file.text, references)
        if not verdict.is_compatible:
            yield from self._explained(plan) or verdict.messages

    def _explained(self, plan: RegistrationPlan) -> list[str]:
        """Explanations of our own verdict."""
        subject = plan.file.subject
        if plan.latest is None or plan.schema is None:
            return []
        level = Level(
            plan.level_change.after if plan.level_change else self._registry.level(subject)
        )
        versions = [plan.latest]
        if level.endswith("_TRANSITIVE"):
            older_versions = self._registry.versions(subject)
            versions = [
                self._registry.version(subject, version_number) for version_number in older_versions
            ]
        earlier_schemas = [
            (version.version, self._registry.resolved(version)) for version in versions
        ]
        return explain(level, plan.schema, earlier_schemas)


def in_order(
    references: Iterable[Reference], latest: RegisteredSchema | None
) -> tuple[Reference, ...]:
    """Returns the references in the order of the latest version, as order matters to a registry."""
    old_order = [reference.name for reference in latest.references] if latest else []

    def place(reference: Reference) -> int:
        return old_order.index(reference.name) if reference.name in old_order else -1

    return tuple(sorted(references, key=place))


def register(
    registry: RegistryClient, plan: RegistrationPlan, done: Mapping[str, RegisteredSchema]
) -> RegisteredSchema:
    """Carries out a plan. `done` are the registered schemas of the folder that the schema needs."""
    file = plan.file
    if plan.level_change:
        registry.set_level(file.subject, plan.level_change.after)
    if plan.registered:
        return plan.registered
    new_references = [
        Reference(needed_type.name, needed_type.subject, done[needed_type.subject].version)
        for needed_type in plan.pending
    ]
    references = in_order([*plan.references, *new_references], plan.latest)
    registry.register(file.subject, file.text, references)
    registered_version = registry.lookup(file.subject, file.text, references)
    if registered_version is None:
        raise RegistryError(f"{file.subject} was registered, but has been deleted since")
    return registered_version
