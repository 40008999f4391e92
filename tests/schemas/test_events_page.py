"""docs/events.md and docs/ledger-entries.md: the tables match the schemas, and the examples run."""

import json
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.bodies.checking import MOST_BYTES, MOST_ITEMS, MOST_LEVELS
from schemas.definitions.types import Array, Enum, Field, Map, Named, Primitive, Record, Type, Union
from schemas.envelope import Encoder
from schemas.event_schemas import (
    DEAD_LETTER,
    HEADER,
    LEDGER,
    LINES_WITH_FIELDS,
    LOG_LINE,
    built_in,
    check_event_schema,
    scaffold,
)
from schemas.parsing import parse
from tests.schemas.events import header

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "events.md").read_text()
LEDGER_PAGE = (DOCS / "ledger-entries.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("name", [HEADER, LOG_LINE, *LINES_WITH_FIELDS, DEAD_LETTER])
def test_the_page_has_every_field(name: str) -> None:
    assert table(record(name)) in PAGE


def test_the_page_has_the_whole_ledger() -> None:
    assert "\n\n".join(sections(record(LEDGER))) in LEDGER_PAGE


def record(name: str) -> Record:
    found = built_in(name).type
    assert isinstance(found, Record)
    return found


def sections(outer: Record) -> Iterator[str]:
    """The table of a record, then those of the records that it is made of."""
    yield table(outer)
    for inner in inner_records(outer, {HEADER}):
        yield f"**`{inner.name.full}`**: {inner.doc}"
        yield table(inner)


def inner_records(outer: Record, seen: set[str]) -> Iterator[Record]:
    for field in outer.fields:
        for each in parts(field.type):
            if isinstance(each, Record) and each.name.full not in seen:
                seen.add(each.name.full)
                yield each
                yield from inner_records(each, seen)


def parts(of: Type) -> tuple[Type, ...]:
    match of:
        case Array():
            return parts(of.items)
        case Union():
            return of.branches
    return (of,)


def table(of: Record) -> str:
    defaults = any(field.has_default for field in of.fields)
    rows = [("field", "type", *(["default"] if defaults else []), "")]
    rows += [tuple("---" for _ in rows[0])]
    for field in of.fields:
        default = f"`{json.dumps(field.default)}`" if field.has_default else ""
        middle = [default] if defaults else []
        rows.append((f"`{field.name}`", explanations(field.type), *middle, meaning(field)))
    return "\n".join(f"| {' | '.join(row)} |".replace("  ", " ") for row in rows)


def meaning(field: Field) -> str:
    symbols = field.type.doc if isinstance(field.type, Enum) else None
    return " ".join(filter(None, [field.doc, symbols]))


def explanations(of: Type) -> str:
    match of:
        case Primitive():
            logical = of.props.get("logicalType")
            return f"{of.kind}, {logical}" if logical else of.kind
        case Enum():
            return f"enum: {', '.join(of.symbols)}"
        case Named():
            return f"`{of.name.simple}`"
        case Array():
            return f"array of {explanations(of.items)}"
        case Map():
            return f"map of {explanations(of.values)}"
        case Union():
            return " or ".join(map(explanations, of.branches))


# What the page says besides.


def test_the_limits_are_those_of_the_page() -> None:
    assert f"{MOST_BYTES >> 20} MiB" in PAGE
    assert MOST_ITEMS == 1_000_000
    assert "more than a million items" in PAGE
    assert f"more than {MOST_LEVELS} levels" in PAGE


def test_an_idle_heartbeat_is_as_small_as_it_says() -> None:
    entry = {"header": header(), "version": 1, "tier": "agent", "cluster": "dc1"}
    entry["heartbeats"] = [{"until": header()["time"]}]
    size = len(Encoder(built_in(LEDGER), 1).encode(entry))
    assert f"about {round(size, -1)} bytes" in LEDGER_PAGE


@pytest.fixture
def topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A message of a topic whose schema lies in the current directory."""
    monkeypatch.chdir(tmp_path)
    text = scaffold("shop.PageView", {"url": "string"})
    Path("page_views-value.avsc").write_text(text)
    schema = parse(text)
    check_event_schema(schema)
    return Encoder(schema, 7).encode({"header": header(), "url": "/cart"})


def run(example: str) -> dict[str, Any]:
    module = types.ModuleType("example")
    exec(compile(example, "docs/events.md", "exec"), module.__dict__)
    return module.__dict__


def test_fastavro_reads_events_as_the_page_shows(topic: bytes) -> None:
    (example,) = (each for each in EXAMPLES if "import fastavro" in each)
    event = run(example)["read"](topic)
    assert event["url"] == "/cart"
    assert event["header"]["time"].timestamp() == header()["time"] / 1000


def test_every_example_is_python() -> None:
    """Those for Confluent's client and for Spark are only compiled here."""
    assert len(EXAMPLES) == 3
    for example in EXAMPLES:
        compile(example, "docs/events.md", "exec")
