"""What registries are asked is what it is meant to be: against the code that reads it."""

import json
from itertools import combinations

import pytest

from bench.registry_contents import LOOK_UP, REGISTER
from bench.registry_requests import (
    CONTENT_TYPE,
    NUMBER,
    event_schema,
    get,
    numbered,
    post_schema,
    wide_schema,
)
from registry.http.messages import HttpRequest
from registry.http.request_reader import Bodies, RequestReader
from schemas.compatibility import Level, messages
from schemas.parsing import parse


def _read(sent: bytes) -> HttpRequest:
    (request,) = RequestReader(Bodies(2**20, 2**20)).feed(sent)
    return request


def test_schemas_are_written_as_they_are_stored() -> None:
    for text in (event_schema("1"), wide_schema(), wide_schema("1")):
        assert parse(text).text == text


def test_the_event_is_a_kilobyte_and_the_wide_record_has_twenty_fields() -> None:
    assert 900 < len(event_schema()) < 1100
    assert len(json.loads(wide_schema())["fields"]) == 20


def test_any_two_versions_can_read_each_other() -> None:
    versions = [parse(wide_schema(added)) for added in (None, "1", "2")]
    for one, other in combinations(versions, 2):
        assert one.text != other.text
        assert messages(Level.FULL, one, [(1, other)]) == []


def test_a_get_says_whether_the_connection_stays() -> None:
    assert _read(get("/schemas/ids/1")).keep_alive
    closing = _read(get("/schemas/ids/1", keep_alive=False))
    assert (closing.method, closing.target, closing.keep_alive) == ("GET", "/schemas/ids/1", False)


@pytest.mark.parametrize(
    ("template", "path"),
    [(REGISTER, "/subjects/filled-000000042/versions"), (LOOK_UP, "/subjects/filled-000000042")],
)
def test_a_numbered_request_has_its_number_everywhere(template: bytes, path: str) -> None:
    (sent,) = numbered(template, [42])
    request = _read(sent)
    assert len(sent) == len(template)
    assert NUMBER.encode() not in sent
    assert (request.method, request.target) == ("POST", path)
    assert request.headers["content-type"] == CONTENT_TYPE
    assert parse(json.loads(request.body)["schema"]).full_name == "shop.checkout.Event000000042"


def test_requests_with_other_numbers_are_others() -> None:
    template = post_schema("/subjects/s/versions", wide_schema(NUMBER))
    assert len(set(numbered(template, range(100)))) == 100
