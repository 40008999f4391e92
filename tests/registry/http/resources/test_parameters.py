"""Parameters, as Confluent's registry understands them."""

import pytest

from registry.errors import ErrorAnswer
from registry.http.connections.messages import HttpRequest
from registry.http.resources.parameters import (
    flag,
    integer,
    new_subject_name,
    number,
    subject_name,
    version_number,
)


def a_request(target: str) -> HttpRequest:
    return HttpRequest("GET", target, {}, b"")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1", 1),
        ("+7", 7),
        ("2147483647", 2**31 - 1),
        ("latest", None),
        (" Latest", None),
        ("-1", None),
    ],
)
def test_versions(written: str, meant: int | None) -> None:
    assert version_number(written) == meant


@pytest.mark.parametrize("written", ["0", "-2", "abc", "", "1.0", "2147483648", "٣", "9" * 5000])
def test_what_is_no_version(written: str) -> None:
    with pytest.raises(ErrorAnswer) as raised:
        version_number(written)
    assert raised.value.code == 42202


def test_flags_and_numbers() -> None:
    query = a_request("/subjects?deleted=TRUE&permanent=1&limit=5&offset=&deleted=false").query
    assert flag(query, "deleted")
    assert not flag(query, "permanent")
    assert not flag(query, "absent")
    assert number(query, "limit", -1) == 5
    assert number(query, "offset", 0) == 0
    with pytest.raises(ErrorAnswer):
        integer("many")


@pytest.mark.parametrize(
    ("target", "segments"),
    [
        ("/", ()),
        ("/subjects", ("subjects",)),
        ("/subjects/a%2Fb/versions/", ("subjects", "a/b", "versions")),
        ("/subjects/%C3%A9%20x?a=/b/c", ("subjects", "é x")),
        ("/subjects/a+b", ("subjects", "a+b")),
        ("/subjects/a;x=y/versions", ("subjects", "a", "versions")),
    ],
)
def test_a_path_is_cut_before_it_is_decoded(target: str, segments: tuple[str, ...]) -> None:
    assert a_request(target).segments == segments


@pytest.mark.parametrize(
    "target",
    [
        "//subjects",
        "/subjects//versions",
        "/a/%2E%2E/b",
        "/a/%",
        "/a/%zz",
        "/a/%ff",
        "/a%5Cb",
        "/a%0A",
    ],
)
def test_paths_that_not_everybody_understands_alike_are_refused(target: str) -> None:
    with pytest.raises(ErrorAnswer) as refused:
        _ = a_request(target).segments
    assert refused.value.status == 400


@pytest.mark.parametrize("name", ["__GLOBAL", "__EMPTY", "a\nb", "a\x7fb", ":.context:a", ":*:a"])
def test_names_that_no_subject_gets(name: str) -> None:
    with pytest.raises(ErrorAnswer) as raised:
        new_subject_name(name)
    assert raised.value.code == 42208


@pytest.mark.parametrize("name", ["orders-value", " ", "a/b", ":name", "../../etc/passwd", "é"])
def test_names_that_subjects_get(name: str) -> None:
    assert new_subject_name(name) == name


def test_the_default_context_may_be_said() -> None:
    assert subject_name(":.:orders") == "orders"
