"""Requests as other clients write them, sent to a running registry: from socket to topic."""

import json
from typing import Any

import pytest

from harness.penstock.registry import RegistryProcess

WRONG_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'


def a_schema(registry: RegistryProcess, subject: str, name: str) -> dict[str, Any]:
    """A reference to it, once it is registered."""
    registry.register(subject, {"type": "record", "name": name, "fields": []})
    return {"name": name, "subject": subject, "version": 1}


@pytest.fixture
def referring(running_registry: RegistryProcess, new_topic: str) -> list[dict[str, Any]]:
    """A schema with its references in one order, and in another, one of them twice."""
    first = a_schema(running_registry, f"{new_topic}-1", "One")
    second = a_schema(running_registry, f"{new_topic}-2", "Two")
    fields = [{"name": "a", "type": "One"}, {"name": "b", "type": "Two"}]
    text = json.dumps({"type": "record", "name": f"R{new_topic[-12:]}", "fields": fields})
    return [
        {"schema": text, "references": [first, second]},
        {"schema": text, "references": [second, first, second]},
    ]


def test_one_version_in_whatever_order_references_come(
    running_registry: RegistryProcess, new_topic: str, referring: list[dict[str, Any]]
) -> None:
    path = f"/subjects/{new_topic}/versions?normalize=true"
    ids = [running_registry.ask("POST", path, each).body["id"] for each in referring]
    assert ids[0] == ids[1]
    assert running_registry.ask("GET", f"/subjects/{new_topic}/versions").body == [1]
    for each in referring:
        path = f"/subjects/{new_topic}?normalize=true"
        assert running_registry.ask("POST", path, each).body["version"] == 1
        path = f"/compatibility/subjects/{new_topic}/versions/latest?normalize=true"
        assert running_registry.ask("POST", path, each).body == {"is_compatible": True}
    unasked = running_registry.ask("POST", f"/subjects/{new_topic}", referring[1])
    assert unasked.body["error_code"] == 40403


def test_the_same_by_the_subjects_setting(
    running_registry: RegistryProcess, new_topic: str, referring: list[dict[str, Any]]
) -> None:
    setting = {"normalize": True}
    assert running_registry.ask("PUT", f"/config/{new_topic}", setting).body == setting
    path = f"/subjects/{new_topic}/versions"
    answers = [running_registry.ask("POST", path, each) for each in reversed(referring)]
    assert answers[0] == answers[1]
    stored = running_registry.ask("GET", f"{path}/1").body
    assert stored["references"] == referring[0]["references"]
    for each in referring:
        assert running_registry.ask("POST", f"/subjects/{new_topic}", each).body == stored


def test_a_subject_may_take_what_is_not_valid_as_new(
    running_registry: RegistryProcess, new_topic: str
) -> None:
    body = {"schema": WRONG_DEFAULT}
    versions = f"/subjects/{new_topic}/versions"
    check = f"/compatibility{versions}/latest"
    for path in (versions, check):
        assert running_registry.ask("POST", path, body).body["error_code"] == 42201
    setting = {"compatibility": "BACKWARD", "validateNewSchemas": False}
    assert running_registry.ask("PUT", f"/config/{new_topic}", setting).body == setting
    assert running_registry.ask("GET", f"/config/{new_topic}").body == {
        "validateNewSchemas": False,
        "compatibilityLevel": "BACKWARD",
    }
    assert running_registry.ask("POST", check, body).body == {"is_compatible": True}
    assert running_registry.ask("POST", versions, body).status == 200
    assert running_registry.ask("POST", check, body).body == {"is_compatible": True}
