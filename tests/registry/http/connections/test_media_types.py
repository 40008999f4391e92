"""Content types of requests and answers, and charsets of bodies, as clients write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import ErrorAnswer
from registry.http.connections.media_types import in_utf8, is_known, negotiated
from registry.http.connections.messages import HttpRequest
from registry.http.connections.request_reader import Bodies, RequestReader
from registry.requests import schema_request

V1 = "application/vnd.schemaregistry.v1+json"
DEFAULT = "application/vnd.schemaregistry+json"
JSON = "application/json"
TEXT = '{"type":"record","name":"R","doc":"käse 🧀 干酪","fields":[]}'
BODY = json.dumps({"schema": TEXT}, ensure_ascii=False)
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"]


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        ("", V1),
        (" , ", V1),
        ("*/*", V1),
        ("*", V1),
        ("*;q=0.5", V1),
        ("*/x", V1),
        ("application/*", V1),
        ("application", V1),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", V1),  # Java's HttpURLConnection
        (JSON, JSON),
        ("Application/JSON", JSON),
        (f"{JSON};q=0.5, {DEFAULT};q=0.4", JSON),
        (f"{JSON};Q=0.4, {DEFAULT};Q=0.5", DEFAULT),
        (f'{JSON};q="0.4", {DEFAULT};q=0.5', DEFAULT),
        (f"{JSON} ; q=1.000", JSON),
        (f"{JSON};charset=utf-8;q=0.2, {DEFAULT};q=0.1", JSON),
        (f'{JSON};profile="a,b;q=0", {DEFAULT};q=0.5', JSON),
        (f"{V1}, {DEFAULT}, {JSON}", V1),
        ("text/html, */*;q=0.1", V1),
        ("text/html, *;q=0.1", V1),
        ("text/html", None),
        ("text/html,", None),
        ("nonsense", None),
        ("*;q=0", None),
        (f"{JSON};q=0", None),
        (f"{V1};q=0, */*", DEFAULT),
        (f"{V1};q=0, application/*;q=0, *", None),
        (f"*, {JSON};q=0", V1),
        (f"{JSON};q=nonsense", None),
        (f"{JSON};q=nan", None),
        (f"{JSON};q=", None),
        (f"{JSON};q=-1", None),
        (f"{JSON};q=nonsense, {DEFAULT}", DEFAULT),
        (f"{JSON}/more", None),
        ("application/", None),
        ("/json", None),
        (";q=1", None),
        (f'"{JSON}"', None),
        (f'"{JSON}', None),
    ],
)
def test_the_type_of_an_answer(accept: str, answered: str | None) -> None:
    assert negotiated(accept) == answered


@given(st.text(st.characters(max_codepoint=255), max_size=50))
def test_whatever_is_accepted_has_an_answer_or_none(accept: str) -> None:
    assert negotiated(accept) in {None, V1, DEFAULT, JSON}


def test_what_is_accepted_may_stand_in_several_headers() -> None:
    reader = RequestReader(Bodies(1000, 1000))
    (request,) = reader.feed(
        b"GET / HTTP/1.1\r\nAccept: text/html\r\nHost: x\r\nACCEPT: application/json\r\n\r\n"
    )
    assert request.answer_type == JSON


@pytest.mark.parametrize(
    ("declared", "known"),
    [
        (V1, True),
        (DEFAULT, True),
        ("Application/JSON", True),
        ("application/json; charset=utf-8", True),
        ("application/json;charset=foo", True),
        ("application/octet-stream", True),
        ("application/*", False),
        ("*", False),
        ("text/plain", False),
        ("", False),
    ],
)
def test_the_type_of_a_body(declared: str, known: bool) -> None:
    assert is_known(declared) is known


def a_request(body: bytes, **headers: str) -> HttpRequest:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest("POST", "/subjects/a/versions", sent, body)


def test_a_page_of_another_site_must_say_what_it_sends() -> None:
    """What is declared as JSON, a browser asks leave for first, and does not get it."""
    assert a_request(b"{}").has_known_body
    assert not a_request(b"{}", origin="https://example.org").has_known_body
    assert a_request(b"{}", origin="https://example.org", content_type=JSON).has_known_body


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "said", ["", "; charset=utf-8", "; charset=UTF-16", '; CharSet="utf-16le"', ";charset=utf_32"]
)
def test_a_body_shows_which_unicode_it_is(encoding: str, said: str) -> None:
    """As it does to Jackson, whatever the header says."""
    request = a_request(BODY.encode(encoding), content_type=JSON + said)
    assert schema_request(request.json).text == TEXT


@pytest.mark.parametrize("charset", ["ISO-8859-1", "latin1", '"iso_8859-1"'])
def test_a_body_in_latin_1(charset: str) -> None:
    body = '{"schema": "käse"}'.encode("latin-1")
    request = a_request(body, content_type=f"{JSON}; boundary=x; charset={charset}")
    assert schema_request(request.json).text == "käse"


@pytest.mark.parametrize("charset", ["ebcdic", "utf-7", "rot13", "zlib", "idna", "é", "x" * 5000])
def test_other_charsets_are_named_and_refused(charset: str) -> None:
    request = a_request(b"{}", content_type=f"{JSON}; charset={charset}")
    with pytest.raises(ErrorAnswer) as refused:
        _ = request.json
    assert (refused.value.status, refused.value.code) == (415, 415)
    assert charset[:20] in refused.value.message
    assert "UTF-8" in refused.value.message
    assert len(refused.value.message) < 200


@pytest.mark.parametrize(
    "body",
    [
        BODY.encode("utf-16") + b"x",
        b"\xff\xfe\x00\xd8\x22\x00",  # half a letter
        b"\x00\x00\x00{" + b"\xff" * 4,
    ],
)
def test_what_is_not_in_its_charset_is_malformed(body: bytes) -> None:
    with pytest.raises(ErrorAnswer) as refused:
        _ = a_request(body, content_type=f"{JSON}; charset=utf-16").json
    assert refused.value.status == 400


def status(body: bytes, charset: str) -> int:
    try:
        schema_request(in_utf8(body, charset))
    except ErrorAnswer as error:
        return error.status
    return 200


@given(st.binary(max_size=40), st.sampled_from(["", "utf-16", "latin1"]))
def test_no_bytes_do_worse_than_that(body: bytes, charset: str) -> None:
    assert status(body, charset) in {200, 400, 422}
