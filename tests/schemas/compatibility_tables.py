"""Verdicts of Java and of Confluent's registry on pairs of schemas: see compatibility/README.md."""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).with_name("compatibility")


def table(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())
    return rows


def each_of(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])
