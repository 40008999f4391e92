"""Topic names: what Kafka accepts, and nothing that could be a path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import InvalidTopicName
from cluster.layout.names import check_topic_name, colliding
from cluster.layout.paths import deletion, partition_state, topic, topic_config


@pytest.mark.parametrize(
    "name", ["a", "page_views", "app.logs-2", "_schemas", "...", "a..b", "0", "x" * 249]
)
def test_legal_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "empty"),
        (".", "'.'"),
        ("..", "'..'"),
        ("x" * 250, "250 characters"),
        ("../x", "'../x'"),
        ("a/b", "'a/b'"),
        ("a b", "'a b'"),
        ("a\n", "a\\n"),
        ("a\0b", "a\\x00b"),
        ("größe", "größe"),
        ("٣", "'٣'"),
        ("\ud800", "\\ud800"),
    ],
)
def test_illegal_names_are_refused_and_shown(name: str, said: str) -> None:
    with pytest.raises(InvalidTopicName) as error:
        check_topic_name(name)
    assert said in str(error.value)
    assert len(str(error.value)) < 250
    str(error.value).encode()


@given(st.text())
def test_no_name_leads_out_of_its_directory(name: str) -> None:
    try:
        paths = [topic(name), topic_config(name), deletion(name), partition_state(name, 0)]
    except InvalidTopicName:
        return
    for path in paths:
        assert ".." not in path.split("/")
        assert "." not in path.split("/")
        assert "" not in path.split("/")[1:]
    assert topic(name).split("/") == ["", "brokers", "topics", name]


def test_names_collide_that_differ_in_dots_and_underscores_only() -> None:
    assert colliding("a.b", ["x", "a_b"]) == "a_b"
    assert colliding("a_b.c", ["a.b_c"]) == "a.b_c"
    assert colliding("a.b", ["a.b", "a-b", "ab"]) is None
    assert colliding("a", []) is None
