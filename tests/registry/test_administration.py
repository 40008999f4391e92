"""What a registry remembers of who changed what; behind locks, and of writes that are passed on."""

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ground.administration.entries import OK, Entry, Kind, read_entry
from harness.penstock.broker import BrokerProcess
from harness.penstock.registry import RegistryProcess
from registry.access.permissions import Operation
from registry.http.routes import CHANGES, NEEDED
from tests.registry.locked import Locks, ask

INT, STRING = '"int"', '"string"'
_PATIENCE = 60.0


class Remembering:
    """A registry behind locks, and its log."""

    def __init__(self, directory: Path, brokers: str) -> None:
        self.locks = Locks(directory / "locks")
        self.log = directory / "administration.log"
        settings = {
            "topic": f"_schemas_{uuid.uuid4().hex[:12]}",
            "administration_log": {"file": str(self.log)},
        }
        self.registry = self.locks.registry(directory, brokers, settings=settings)

    def entries(self, subject: str) -> list[Entry]:
        found = [read_entry(line) for line in self.log.read_bytes().splitlines()]
        return [each for each in found if each.name == subject]

    def last(self, subject: str, is_it: Callable[[Entry], bool] = lambda _: True) -> Entry:
        """The newest that is it; waits for it."""
        deadline = time.monotonic() + _PATIENCE
        while not (found := [each for each in self.entries(subject) if is_it(each)]):
            assert time.monotonic() < deadline, self.entries(subject)
            time.sleep(0.01)
        return found[-1]


@pytest.fixture(scope="module")
def remembering(
    tmp_path_factory: pytest.TempPathFactory, running_broker: BrokerProcess
) -> Iterator[Remembering]:
    made = Remembering(tmp_path_factory.mktemp("remembering"), running_broker.bootstrap)
    with made.registry:
        yield made


@pytest.fixture
def subject() -> str:
    return f"pay-{uuid.uuid4().hex[:10]}"


def test_all_that_changes_anything_is_remembered() -> None:
    writing = {
        resource for resource, needed in NEEDED.items() if needed not in {None, Operation.READ}
    }
    assert writing == CHANGES.keys(), "a resource that changes something, without a row in CHANGES"


def requests(subject: str) -> list[tuple[str, str, object]]:
    """One of each kind that changes something."""
    return [
        ("POST", f"/subjects/{subject}/versions", {"schema": INT}),
        ("PUT", f"/config/{subject}", {"compatibility": "FULL"}),
        ("DELETE", f"/config/{subject}", None),
        ("PUT", f"/mode/{subject}", {"mode": "READONLY"}),
        ("DELETE", f"/mode/{subject}", None),
        ("DELETE", f"/subjects/{subject}/versions/1", None),
        ("DELETE", f"/subjects/{subject}?permanent=true", None),
    ]


def test_the_life_of_a_subject(remembering: Remembering, subject: str) -> None:
    root = remembering.locks.login("root")
    for method, path, body in requests(subject):
        assert ask(remembering.registry, root, method, path, body)[0] == 200, path
    remembering.last(subject, lambda each: each.after == {"deleted": "for ever"})
    entries = remembering.entries(subject)
    assert {each.result for each in entries} == {OK}
    assert {(each.principal, each.address, each.listener) for each in entries} == {
        ("root", "127.0.0.1", "https")
    }
    told = [(each.action, each.kind, each.before, each.after) for each in entries]
    registered = told.pop(0)
    assert registered[:3] == ("register", Kind.SCHEMA, {})
    assert registered[3].keys() == {"id", "version"}
    assert registered[3]["version"] == "1"
    assert told == [
        ("alter", Kind.COMPATIBILITY, {}, {"compatibilityLevel": "FULL"}),
        ("delete", Kind.COMPATIBILITY, {"compatibilityLevel": "FULL"}, {}),
        ("alter", Kind.MODE, {}, {"mode": "READONLY"}),
        ("delete", Kind.MODE, {"mode": "READONLY"}, {}),
        ("delete", Kind.SCHEMA, {"versions": "1"}, {"deleted": "softly"}),
        ("delete", Kind.SCHEMA, {"versions": "1"}, {"deleted": "for ever"}),
    ]


def test_what_is_there_already_is_no_change(remembering: Remembering, subject: str) -> None:
    root = remembering.locks.login("root")
    for schema in (INT, INT, STRING, INT):
        body = {"schema": schema}
        ask(remembering.registry, root, "POST", f"/subjects/{subject}/versions", body)
    refused = remembering.last(subject, lambda each: each.result != OK)
    assert (refused.result, refused.action) == ("40901", "register")
    assert len([each for each in remembering.entries(subject) if each.result == OK]) == 1


def test_what_somebody_may_not_do_is_there_with_the_name(
    remembering: Remembering, subject: str
) -> None:
    token = remembering.locks.token()  # may read
    for method, path, body in requests(subject):
        status, answer = ask(remembering.registry, token, method, path, body)
        assert (status, answer["error_code"]) == (403, 40301)
    for each in CHANGES.values():
        entry = remembering.last(
            subject, lambda found, each=each: (found.action, found.kind) == (each.action, each.kind)
        )
        assert (entry.principal, entry.result) == ("a-token", "40301")


def test_of_all_subjects(remembering: Remembering) -> None:
    alice = remembering.locks.login("alice")
    assert ask(remembering.registry, alice, "PUT", "/config", {"compatibility": "NONE"})[0] == 403
    refused = remembering.last("*")
    assert (refused.principal, refused.kind, refused.result) == (
        "alice",
        Kind.COMPATIBILITY,
        "40301",
    )


def test_without_a_file_a_registry_says_that_it_remembers_nothing(
    running_registry: RegistryProcess,
) -> None:
    assert "administration_log.file" in running_registry.process.output.read_text()
