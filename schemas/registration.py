"""What would become of schemas in a registry, found out without changing anything; then done.

A schema is refused if it is none, if the registry takes no writes, or if the subject's level of
compatibility does not allow it. The registry's own verdict is asked for where it can give one.
Where it cannot (the level is to be changed as well, or the schema needs another that has no version
yet) the verdict is that of schemas/compatibility.py, which also has the words.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from schemas.compatibility import Level, explain
from schemas.differences import Difference, differences
from schemas.errors import InvalidSchema, RegistryError, RegistryRefused
from schemas.folder import Needed, SchemaFile
from schemas.parsing import AvroSchema, parse
from schemas.registry_client import RegistryClient
from schemas.remote.answers import Reference, RegisteredSchema

__all__ = ["LevelChange", "Outcome", "Planner", "RegistrationPlan", "in_order", "register"]

_WRITABLE: Final = "READWRITE"
_UNPROCESSABLE: Final = 422


class Outcome(StrEnum):
    """What becomes of a schema."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


class LevelChange(msgspec.Struct, frozen=True):
    """`before` is None if the subject had no level of its own."""

    before: str | None
    after: Level


class RegistrationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of one schema, and why.

    `pending` are schemas of the same folder that it needs and that have no version yet.
    `registered` is what the registry has already, if the schema is unchanged.
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
    reasons: tuple[str, ...] = ()


class Planner:
    """Plans one schema after the other, each after those of the folder that it needs."""

    def __init__(self, registry: RegistryClient, levels: Mapping[str, Level] | None = None) -> None:
        """`levels` are those that subjects are to have of their own."""
        self._registry = registry
        self._levels = levels or {}
        self._plans: dict[str, RegistrationPlan] = {}

    def plan(self, file: SchemaFile) -> RegistrationPlan:
        """RegistryError if the registry does not say; whatever else is wrong is an outcome."""
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
        """The schema, with the latest of what it needs of the registry."""
        return parse(file.text, self._texts([], self._references(file)))

    def _plan(self, file: SchemaFile) -> RegistrationPlan:
        inside = [self._plans[each.subject] for each in file.needs if each.inside]
        if refused := [each.file.path for each in inside if each.schema is None]:
            raise InvalidSchema(f"it needs {', '.join(refused)}")
        latest = self._registry.latest(file.subject)
        pending = tuple(each for each in file.needs if each.inside and not self._version(each))
        # As long as nothing else changes, a schema goes on using the version that it used.
        used = latest.references if latest else ()
        found = None
        for references in dict.fromkeys((self._references(file, used), self._references(file))):
            schema = parse(file.text, self._texts(inside, references))
            if not pending:
                found = self._registry.lookup(file.subject, file.text, in_order(references, latest))
            if found is not None:
                break
        plan = RegistrationPlan(
            file=file,
            outcome=Outcome.UNCHANGED if found else Outcome.CHANGED if latest else Outcome.NEW,
            schema=schema,
            references=references,
            pending=pending,
            latest=latest,
            registered=found,
            level_change=self._level_change(file.subject),
            differences=() if found else self._differences(latest, schema),
        )
        reasons = tuple(self._objections(plan))
        return replace(plan, outcome=Outcome.REFUSED, reasons=reasons) if reasons else plan

    def _version(self, needed: Needed) -> int | None:
        """The version that a schema of this folder has already."""
        registered = self._plans[needed.subject].registered
        return registered.version if registered else None

    def _references(
        self, file: SchemaFile, used: Iterable[Reference] = ()
    ) -> tuple[Reference, ...]:
        """To the latest versions of what it needs, or to those that it used."""
        before = {each.name: each for each in used}
        references = []
        for needed in file.needs:
            if needed.inside:
                if version := self._version(needed):
                    references.append(Reference(needed.name, needed.subject, version))
            elif needed.name in before:
                references.append(before[needed.name])
            elif found := self._registry.latest(needed.subject):
                references.append(Reference(needed.name, needed.subject, found.version))
            else:
                raise InvalidSchema(
                    f"it names {needed.name}, which nothing defines here, and the registry has no "
                    f"subject {needed.subject}"
                )
        return tuple(references)

    def _texts(
        self, inside: Iterable[RegistrationPlan], references: Iterable[Reference]
    ) -> list[str]:
        """The texts of all it needs, each after those that it needs itself."""
        schemas = [plan.schema for plan in inside if plan.schema is not None]
        ours = {plan.file.subject for plan in inside}
        theirs = [each for each in references if each.subject not in ours]
        texts = [text for each in schemas for text in (*each.references, each.text)]
        return list(dict.fromkeys([*self._registry.texts_of(theirs), *texts]))

    def _level_change(self, subject: str) -> LevelChange | None:
        wanted = self._levels.get(subject)
        if wanted is None:
            return None
        before = self._registry.own_level(subject)
        return None if before == wanted else LevelChange(before, wanted)

    def _differences(
        self, latest: RegisteredSchema | None, schema: AvroSchema
    ) -> tuple[Difference, ...]:
        if latest is None:
            return ()
        return tuple(differences(self._registry.resolved(latest), schema))

    def _objections(self, plan: RegistrationPlan) -> Iterator[str]:
        """Why it would be refused: nothing, if it would not be."""
        if plan.registered and not plan.level_change:
            return
        subject = plan.file.subject
        mode = self._registry.mode(subject)
        if mode != _WRITABLE:
            yield f"the registry takes no schemas of {subject}: its mode is {mode}"
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
        """Our own verdict."""
        subject = plan.file.subject
        if plan.latest is None or plan.schema is None:
            return []
        level = Level(
            plan.level_change.after if plan.level_change else self._registry.level(subject)
        )
        versions = [plan.latest]
        if level.endswith("_TRANSITIVE"):
            older = self._registry.versions(subject)
            versions = [self._registry.version(subject, each) for each in older]
        previous = [(each.version, self._registry.resolved(each)) for each in versions]
        return explain(level, plan.schema, previous)


def in_order(
    references: Iterable[Reference], latest: RegisteredSchema | None
) -> tuple[Reference, ...]:
    """To a registry, the same references in another order make another schema."""
    before = [each.name for each in latest.references] if latest else []
    return tuple(
        sorted(references, key=lambda each: before.index(each.name) if each.name in before else -1)
    )


def register(
    registry: RegistryClient, plan: RegistrationPlan, done: Mapping[str, RegisteredSchema]
) -> RegisteredSchema:
    """Does what was planned; `done` are the schemas of the folder that it needs."""
    file = plan.file
    if plan.level_change:
        registry.set_level(file.subject, plan.level_change.after)
    if plan.registered:
        return plan.registered
    new = [Reference(each.name, each.subject, done[each.subject].version) for each in plan.pending]
    references = in_order([*plan.references, *new], plan.latest)
    registry.register(file.subject, file.text, references)
    registered = registry.lookup(file.subject, file.text, references)
    if registered is None:
        raise RegistryError(f"{file.subject} was registered, and is gone again")
    return registered
