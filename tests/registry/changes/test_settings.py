"""What a PUT of a setting may say: it is done and confirmed, or refused; nothing is dropped."""

import json
from typing import Any

import msgspec
import pytest

from registry.changes.registration import register
from registry.changes.settings import set_config
from registry.errors import ErrorAnswer
from registry.http.resources.answers import config_answer, config_change
from registry.requests import SchemaRequest, config_request, schema_request
from registry.schemas_topic.contents import RegistryContents
from registry.schemas_topic.log_records import ConfigRecord
from registry.schemas_topic.values import Config, Level

# The keys of Confluent's ConfigUpdateRequest, with a value that each can be given here.
TAKEN: dict[str, object] = {
    "alias": "",
    "aliasForDeks": "",
    "normalize": True,
    "validateFields": False,
    "validateNewSchemas": False,
    "validateRules": False,
    "compatibility": "FULL",
    "compatibilityPolicy": "LENIENT",
    "compatibilityGroup": "group",
}
REFUSED: dict[str, object] = {
    "alias": "other",
    "aliasForDeks": "other",
    "validateFields": True,
    "validateRules": True,
    "compatibilityPolicy": "LOGICAL",
    "defaultMetadata": {"properties": {"a": "b"}},
    "overrideMetadata": {},
    "defaultRuleSet": {"domainRules": []},
    "overrideRuleSet": {"domainRules": []},
}
ALL_KEYS = TAKEN.keys() | REFUSED.keys()


def put(contents: RegistryContents, subject: str | None, body: object) -> dict[str, Any]:
    """The answer to a PUT, once what it wrote was read back."""
    decision = set_config(contents, subject, config_request(json.dumps(body).encode()))
    for record in decision.records:
        contents.apply(contents.offset, record)
    return as_json(config_change(decision.answer))


def as_json(value: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(value))
    return found


@pytest.mark.parametrize("key", sorted(TAKEN))
@pytest.mark.parametrize("subject", ["a", None])
def test_what_is_taken_is_confirmed_and_shown(key: str, subject: str | None) -> None:
    contents = RegistryContents()
    body = {key: TAKEN[key]}
    assert put(contents, subject, body) == body
    own = contents.config(subject)
    assert own is not None
    shown = as_json(config_answer(own, Level.BACKWARD))
    name = "compatibilityLevel" if key == "compatibility" else key
    assert shown == {"compatibilityLevel": "BACKWARD", name: TAKEN[key]}


@pytest.mark.parametrize("key", sorted(REFUSED))
def test_what_nothing_acts_upon_is_refused(key: str) -> None:
    with pytest.raises(ErrorAnswer) as refused:
        config_request(json.dumps({"compatibility": "FULL", key: REFUSED[key]}).encode())
    assert (refused.value.status, refused.value.code) == (422, 42203)
    assert f"`{key}`" in refused.value.message


@pytest.mark.parametrize("key", sorted(ALL_KEYS))
def test_null_unsets_whatever_a_topic_of_confluents_may_have_set(key: str) -> None:
    contents = RegistryContents()
    before = Config(
        alias="other",
        alias_for_deks="other",
        normalize=True,
        validate_fields=True,
        validate_new_schemas=True,
        validate_rules=True,
        compatibility_level=Level.NONE,
        compatibility_policy="LOGICAL",
        compatibility_group="group",
        default_metadata=msgspec.Raw(b'{"properties":{}}'),
        override_metadata=msgspec.Raw(b'{"properties":{}}'),
        default_rule_set=msgspec.Raw(b'{"domainRules":[]}'),
        override_rule_set=msgspec.Raw(b'{"domainRules":[]}'),
    )
    contents.take(ConfigRecord("a", before))
    assert as_json(config_change(before)).keys() == ALL_KEYS
    assert put(contents, "a", {key: None}).keys() == ALL_KEYS - {key}
    assert put(contents, "a", {}).keys() == ALL_KEYS - {key}


def test_a_policy_is_told_in_whatever_case() -> None:
    assert put(RegistryContents(), "a", {"compatibilityPolicy": "strict"}) == {
        "compatibilityPolicy": "STRICT"
    }
    with pytest.raises(ErrorAnswer) as refused:
        config_request(b'{"compatibilityPolicy": ""}')
    assert refused.value.code == 42203


def test_what_confluents_registry_does_not_know_is_passed_over_as_there() -> None:
    assert config_request(b'{"colour": "red"}') == {}


WRONG_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}'
WRONG_NAMESPACE = '{"type":"record","name":"R","namespace":"a-bad.namespace","fields":[]}'


@pytest.mark.parametrize("text", [WRONG_DEFAULT, WRONG_NAMESPACE])
@pytest.mark.parametrize("subject", ["a", None])
def test_new_schemas_are_validated_unless_that_is_switched_off(
    text: str, subject: str | None
) -> None:
    contents = RegistryContents()
    request = SchemaRequest(schema=text)
    for setting in (None, {"validateNewSchemas": True}):
        if setting is not None:
            put(contents, subject, setting)
        with pytest.raises(ErrorAnswer) as refused:
            register(contents, "a", request, normalize=False)
        assert refused.value.code == 42201
    put(contents, subject, {"validateNewSchemas": False})
    assert register(contents, "a", request, normalize=False).answer.text == text


def test_what_is_no_schema_at_all_is_none_either_way() -> None:
    contents = RegistryContents()
    put(contents, None, {"validateNewSchemas": False})
    for text in ("{", '{"type":"record","name":"a-b","fields":[]}'):
        with pytest.raises(ErrorAnswer) as refused:
            register(contents, "a", SchemaRequest(schema=text), normalize=False)
        assert refused.value.code == 42201


TAGS = [{"schemaEntity": {"entityPath": "R.a", "entityType": "sr_field"}, "tags": ["PII"]}]


@pytest.mark.parametrize(
    "said",
    [{"schemaTagsToAdd": TAGS}, {"schemaTagsToRemove": TAGS}, {"propagateSchemaTags": True}],
)
def test_tags_beside_a_schema_are_refused_rather_than_dropped(said: dict[str, object]) -> None:
    with pytest.raises(ErrorAnswer) as refused:
        schema_request(json.dumps({"schema": '"int"', **said}).encode())
    assert (refused.value.status, refused.value.code) == (422, 42203)
    assert f"`{next(iter(said))}`" in refused.value.message


@pytest.mark.parametrize(
    "said",
    [{"schemaTagsToAdd": None}, {"schemaTagsToRemove": []}, {"propagateSchemaTags": False}],
)
def test_no_tags_may_be_said(said: dict[str, object]) -> None:
    assert schema_request(json.dumps({"schema": '"int"', **said}).encode()).text == '"int"'


def test_where_rules_are_carried_out_is_kept_with_them() -> None:
    rules = {"domainRules": [{"name": "r"}], "enableAt": "CLIENT"}
    request = schema_request(json.dumps({"schema": '"int"', "ruleSet": rules}).encode())
    assert request.rule_set is not None
    assert json.loads(request.rule_set.text) == rules
