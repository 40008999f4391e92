"""What would become of schemas in a registry, asked of a running one."""

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.penstock.registry import RegistryProcess
from schemas.compatibility import Level
from schemas.folder import SchemaFile, needs_of, read_folder
from schemas.registration import LevelChange, Outcome, Planner, RegistrationPlan, register
from schemas.registry_client import RegistryClient
from schemas.remote.answers import Reference, RegisteredSchema


@pytest.fixture
def registry(running_registry: RegistryProcess) -> Iterator[RegistryClient]:
    with RegistryClient(running_registry.url) as client:
        yield client


@pytest.fixture
def space() -> str:
    """A namespace that no other test uses."""
    return f"n{uuid.uuid4().hex[:12]}"


def record(name: str, *types: Any, **more: Any) -> str:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return json.dumps({"type": "record", "name": name, "fields": fields, **more})


class Folder:
    """A folder of schemas of one namespace: `write(A=…)` is the subject {space}.A."""

    def __init__(self, path: Path, registry: RegistryClient, space: str) -> None:
        self.path = path
        self.registry = registry
        self.space = space

    def write(self, **types: list[Any]) -> None:
        for name, fields in types.items():
            full = f"{self.space}.{name}"
            (self.path / f"{full}.avsc").write_text(record(full, *fields))

    def plan(self, levels: Mapping[str, Level] | None = None) -> dict[str, RegistrationPlan]:
        """By the name within the namespace."""
        wanted = {f"{self.space}.{name}": level for name, level in (levels or {}).items()}
        planner = Planner(self.registry, wanted)
        plans = [planner.plan(each) for each in read_folder(self.path)]
        return {plan.file.subject.removeprefix(f"{self.space}."): plan for plan in plans}

    def outcomes(self) -> dict[str, str]:
        return {name: plan.outcome.value for name, plan in self.plan().items()}

    def apply(self, levels: Mapping[str, Level] | None = None) -> dict[str, int]:
        """The versions that they have, then."""
        done: dict[str, RegisteredSchema] = {}
        for plan in self.plan(levels).values():
            assert not plan.reasons
            done[plan.file.subject] = register(self.registry, plan, done)
        return {name.rpartition(".")[2]: each.version for name, each in done.items()}


@pytest.fixture
def folder(tmp_path: Path, registry: RegistryClient, space: str) -> Folder:
    return Folder(tmp_path, registry, space)


def test_a_folder_is_registered_in_the_order_of_its_needs(folder: Folder) -> None:
    folder.write(A=["B", "C"], B=["C"], C=["int"])
    assert folder.outcomes() == {"A": "new", "B": "new", "C": "new"}
    assert folder.registry.latest(f"{folder.space}.C") is None
    assert folder.apply() == {"A": 1, "B": 1, "C": 1}
    assert folder.outcomes() == {"A": "unchanged", "B": "unchanged", "C": "unchanged"}
    assert folder.apply() == {"A": 1, "B": 1, "C": 1}
    whole = folder.registry.latest(f"{folder.space}.A")
    assert whole is not None
    assert [(each.name, each.version) for each in whole.references] == [
        (f"{folder.space}.B", 1),
        (f"{folder.space}.C", 1),
    ]


def test_who_needs_what_changed_is_registered_again(folder: Folder) -> None:
    folder.write(A=["B"], B=["int"], C=["int"])
    folder.apply()
    text = record(f"{folder.space}.B", "int")
    added = {"name": "new", "type": ["null", "int"], "default": None}
    changed = json.loads(text)
    changed["fields"].append(added)
    (folder.path / f"{folder.space}.B.avsc").write_text(json.dumps(changed))
    plans = folder.plan()
    assert {name: plan.outcome.value for name, plan in plans.items()} == {
        "A": "changed",
        "B": "changed",
        "C": "unchanged",
    }
    assert [(each.path, each.what) for each in plans["A"].differences] == [
        ("f0.new", "null or int, default null")
    ]
    assert folder.apply() == {"A": 2, "B": 2, "C": 1}
    assert set(folder.outcomes().values()) == {"unchanged"}


def test_who_needs_what_is_refused_is_refused(folder: Folder) -> None:
    folder.write(A=["B"], B=["int"], C=["A"])
    folder.apply()
    folder.write(B=["string"])
    plans = folder.plan()
    assert {name: plan.outcome.value for name, plan in plans.items()} == {
        "A": "refused",
        "B": "refused",
        "C": "refused",
    }
    assert "`f0`" in plans["B"].reasons[0]
    (folder.path / f"{folder.space}.B.avsc").write_text("{")
    assert "line 1" in folder.plan()["B"].reasons[0]
    assert folder.plan()["A"].reasons == (
        f"the schema needs {folder.path / folder.space}.B.avsc, which cannot be registered",
    )
    assert folder.plan()["C"].reasons == (
        f"the schema needs {folder.path / folder.space}.A.avsc, which cannot be registered",
    )


def test_a_level_is_changed_and_judged_by_before_it_is_set(folder: Folder) -> None:
    folder.write(A=["int"])
    folder.apply()
    folder.write(A=["string"])
    assert folder.plan()["A"].outcome is Outcome.REFUSED
    plan = folder.plan({"A": Level.NONE})["A"]
    assert (plan.outcome, plan.level_change) == (Outcome.CHANGED, LevelChange(None, Level.NONE))
    subject = f"{folder.space}.A"
    assert folder.registry.own_level(subject) is None
    assert folder.apply({"A": Level.NONE}) == {"A": 2}
    assert folder.registry.own_level(subject) == "NONE"
    assert folder.plan({"A": Level.NONE})["A"].level_change is None
    # The level alone may change, and what it allows is asked of all versions where it says so.
    assert folder.apply({"A": Level.FULL_TRANSITIVE}) == {"A": 2}
    assert folder.registry.own_level(subject) == "FULL_TRANSITIVE"
    folder.write(A=["string", "int"])
    reasons = folder.plan({"A": Level.FORWARD_TRANSITIVE})["A"].reasons
    assert len(reasons) == 1
    assert "version 1" in reasons[0]


def test_what_the_folder_does_not_define_is_the_registrys(folder: Folder) -> None:
    registry, space = folder.registry, folder.space
    folder.write(A=["Shared"])
    assert "the registry has no subject" in folder.plan()["A"].reasons[0]
    shared = f"{space}.Shared"
    registry.register(shared, record(shared, "int"))
    assert folder.apply() == {"A": 1}
    # Of what others change it goes on using what it used, until it is changed itself.
    registry.register(shared, record(shared, "int", doc="d"))
    assert folder.outcomes() == {"A": "unchanged"}
    folder.write(A=["Shared", "Shared"])
    registry.set_level(f"{space}.A", "NONE")
    assert folder.plan()["A"].references == (Reference(shared, shared, 2),)


def test_references_of_others_keep_their_order(registry: RegistryClient, space: str) -> None:
    """To a registry, references in another order make another schema."""
    for name in "AB":
        registry.register(f"{space}.{name}", record(f"{space}.{name}", "int"))
    text = record(f"{space}.C", "A", "B")
    references = [Reference(f"{space}.{name}", f"{space}.{name}", 1) for name in "BA"]
    registry.register(f"{space}.C", text, references)
    plan = Planner(registry).plan(SchemaFile("-", f"{space}.C", text, needs_of(text)))
    assert plan.outcome is Outcome.UNCHANGED


def test_a_registry_that_is_read_only(
    running_registry: RegistryProcess, registry: RegistryClient, space: str
) -> None:
    subject, text = f"{space}-value", '"int"'
    running_registry.ask("PUT", f"/mode/{subject}", {"mode": "READONLY"})
    plan = Planner(registry).plan(SchemaFile("-", subject, text))
    assert plan.reasons == (f"the registry accepts no schemas of {subject}: its mode is READONLY",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type": "record", "name": "X", "fields": [{"name": "a"}]}', "record X, field a"),
        (record("X", "y.Z"), "the registry has no subject y.Z"),
        (record("X", {"type": "fixed", "name": "F", "size": -1}), "F"),
        ("[" * 10_000, "200 levels"),
        ('"\\ud800"', "surrogate"),
        ("", "empty"),
    ],
)
def test_what_is_no_schema(registry: RegistryClient, space: str, text: str, said: str) -> None:
    file = SchemaFile("a.avsc", f"{space}-value", text, needs_of(text))
    plan = Planner(registry).plan(file)
    assert plan.outcome is Outcome.REFUSED
    (reason,) = plan.reasons
    assert said in reason
