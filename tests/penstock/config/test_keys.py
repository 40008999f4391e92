"""Keys as they are read from structs, how types and defaults are said, and `penstock keys`."""

import json
from enum import StrEnum
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ground.settings import Bytes, FilePath, HostAndPort, Seconds
from penstock.config.reference import (
    KINDS,
    Key,
    Unexplained,
    found,
    is_nothing,
    sections,
    spoken,
    written,
)
from tests.penstock.running import penstock
from tests.penstock.terminals import on_a_terminal


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Part(msgspec.Struct, frozen=True):
    """A part. It is small."""

    weight: float
    """In grams."""


class Machine(msgspec.Struct, frozen=True):
    """One machine."""

    name: str
    """What it is called: see [names](#names)."""
    parts: tuple[Part, ...] = ()
    by_name: dict[str, Part] = {}
    """Those that
    have names."""
    one: Part | None = None
    base: Part = Part(weight=1.0)
    colour: Colour = Colour.BLUE
    """Seen from outside."""
    brokers: tuple[HostAndPort, ...] = ("a:1",)
    """Which."""
    files: list[FilePath] = []
    """Its papers."""
    wait: Seconds | None = None
    """How long."""
    room: Bytes = 2048
    """How much."""
    tags: dict[str, str | int] = {}
    """Any."""
    loud: bool = False
    """Whether."""
    more: dict[str, Any] = {}
    """Whatever."""


class Silent(msgspec.Struct, frozen=True):
    said: int
    """So many."""
    unsaid: int


def keys() -> dict[str, Key]:
    return {key.name: key for section in sections(Machine) for key in section.keys}


def test_names_are_those_of_overrides() -> None:
    names = [section.name for section in sections(Machine)]
    assert names == ["", "parts[]", "by_name.NAME", "one", "base"]
    assert {"parts[].weight", "by_name.NAME.weight", "one.weight", "base.weight"} < set(keys())


def test_types_are_words_for_people() -> None:
    assert {key.name: key.type for key in keys().values()} == {
        "name": "text",
        "parts": "list of mappings",
        "parts[].weight": "number",
        "by_name": "mapping of names to mappings",
        "by_name.NAME.weight": "number",
        "one": "mapping",
        "one.weight": "number",
        "base": "mapping",
        "base.weight": "number",
        "colour": "one of",
        "brokers": "list of host:port",
        "files": "list of files",
        "wait": "seconds",
        "room": "bytes",
        "tags": "mapping of names to values",
        "loud": "true or false",
        "more": "mapping of names to values",
    }
    assert keys()["colour"].allowed == ("red", "blue")


def test_defaults_and_what_is_required() -> None:
    assert keys()["name"].required
    assert keys()["colour"].default == "blue"
    assert keys()["base"].default == {}
    assert is_nothing(keys()["one"].default)
    assert is_nothing(keys()["tags"].default)
    assert not is_nothing(keys()["loud"].default)


def test_meanings_are_one_line_and_may_be_the_structs() -> None:
    assert keys()["by_name"].meaning == "Those that have names."
    assert keys()["parts"].meaning == "A part. It is small."
    assert keys()["name"].meaning == "What it is called: see [names](#names)."
    assert keys()["name"].plain_meaning == "What it is called: see names."


def test_a_key_without_a_meaning_is_refused() -> None:
    with pytest.raises(Unexplained, match=r"Silent\.unsaid"):
        sections(Silent)


def test_what_is_looked_for_is_found_by_name_first() -> None:
    def names(*words: str) -> list[str]:
        return [key.name for key in found(sections(Machine), words)]

    assert names("NAME") == ["name", "by_name", "by_name.NAME.weight"]
    assert names("grams", "parts") == ["parts[].weight"]
    assert names("red") == ["colour"]
    assert names("#names") == []
    assert names("part", "nonsense") == []


@given(
    st.recursive(
        st.text()
        | st.text(",[]{}: #'\"-a")
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=5,
    )
)
def test_a_default_is_written_as_yaml_reads_it(value: Any) -> None:
    assert yaml.safe_load(written(value)) == value


def test_defaults_are_short() -> None:
    for value, text in (
        (5.0, "5"),
        (0.1, "0.1"),
        (True, "true"),
        ("local[*]", "local[*]"),
        (("127.0.0.1:9092", "b"), "[127.0.0.1:9092, b]"),
        (("a, b", "*"), """["a, b", '*']"""),
        ("http://127.0.0.1:8081", "http://127.0.0.1:8081"),
    ):
        assert written(value) == text


def test_large_numbers_are_said_too() -> None:
    for value, kind, said in (
        (2**30, "bytes", "1 GiB"),
        (1536, "bytes", ""),
        (512 * 1024, "bytes", "512 KiB"),
        (0, "bytes", ""),
        (86_400.0, "seconds", "1 day"),
        (90_000.0, "seconds", "25 hours"),
        (600, "whole seconds", "10 minutes"),
        (60.0, "seconds", ""),
        (3601.0, "seconds", ""),
        (7200, "whole number", ""),
        (True, "seconds", ""),
    ):
        assert spoken(value, kind) == said, value


@pytest.mark.not_quick("imports whole programs")
@pytest.mark.parametrize("program", KINDS)
def test_every_program_explains_itself(program: str) -> None:
    ended = penstock("keys", program)
    assert (ended.returncode, ended.stderr) == (0, "")
    titles, *rows = ended.stdout.splitlines()
    assert titles.split() == ["key", "type", "default", "meaning"]
    documents = json.loads(penstock("keys", program, "--json").stdout)
    assert [row.split()[0] for row in rows] == [each["key"] for each in documents]


def test_only_what_is_looked_for() -> None:
    ended = penstock("keys", "agent", "Multiline", "begins")
    assert [row.split()[0] for row in ended.stdout.splitlines()[1:]] == [
        "inputs[].multiline.start",
        "inputs[].multiline.indentation",
        "inputs[].multiline.max_lines",
    ]


def test_a_key_as_a_document() -> None:
    (document, *_) = json.loads(penstock("keys", "broker", "port", "listens", "--json").stdout)
    meaning = {"meaning": "The port that it listens on; 0: any that is free.", "default": 9092}
    assert document == {"key": "port", "type": "port", "allowed": [], "required": False, **meaning}


def test_a_terminal_has_the_meaning_under_the_key() -> None:
    shown = on_a_terminal("keys", "audit", "retention", columns=60)
    assert shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines() == [
        "retention  seconds, default 604800 (7 days)",
        "    Windows, files and loads older than this are forgotten.",
    ]


def test_what_nobody_speaks_of_and_a_program_without_configuration() -> None:
    ended = penstock("keys", "agent", "flux", "capacitor")
    said = "no key of agent matches flux capacitor; `penstock keys agent` shows all keys"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", f"penstock: {said}\n")
    ended = penstock("keys", "completion")
    assert (ended.returncode, "not one of 'agent', 'broker'" in ended.stderr) == (2, True)
