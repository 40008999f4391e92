"""Java's results for a thousand schemas: see golden/README.md."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

FOLDER = Path(__file__).with_name("golden")
every_file = pytest.mark.parametrize("file", sorted(path.stem for path in FOLDER.glob("*.json")))


class Case(msgspec.Struct, frozen=True):
    """`normalized` is None where Java's normal form is not expected."""

    input: str
    references: tuple[str, ...]
    strict: bool
    text: str | None  # None: it is rejected
    resolved: str
    normalized: str
    fingerprint: str


def cases(file: str, *, accepted: bool) -> list[Case]:
    rows = json.loads((FOLDER / f"{file}.json").read_text())
    return [_case(row) for row in rows if ("rejected" not in row) == accepted]


def _case(row: dict[str, Any]) -> Case:
    text = row.get("text", "")
    return Case(
        row["input"],
        tuple(row.get("references", ())),
        row.get("strict", True),
        row.get("text"),
        row.get("resolved", text),
        row.get("ours", row.get("normalized", text)),
        row.get("fingerprint", ""),
    )
