"""Converts altered text to the ledger's format: one statement for each file, kind and field."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from agent.accounting.alterations import AlteredText, summed
from ground.printable import path_text


def altered_json(statements: Iterable[AlteredText]) -> list[dict[str, Any]]:
    """The statements as JSON, summed by file, kind and field."""
    sums: dict[tuple[str, ...], AlteredText] = {}
    for statement in statements:
        altered = statement.altered
        key = (
            statement.topic,
            statement.input,
            statement.source,
            statement.path,
            altered.kind,
            altered.name,
        )
        before = sums.get(key)
        sums[key] = statement if before is None else _united(before, statement)
    return [
        {
            "topic": each.topic,
            "input": path_text(each.input),
            "source": each.source,
            "path": path_text(each.path),
            "kind": each.altered.kind.value,
            "name": path_text(each.altered.name),
            "lines": each.altered.lines,
            "count": each.altered.count,
            "from_time": each.from_millis,
            "to_time": each.to_millis,
            "hint": each.altered.hint,
        }
        for each in sums.values()
    ]


def _united(one: AlteredText, other: AlteredText) -> AlteredText:
    return replace(
        one,
        altered=summed(one.altered, other.altered),
        from_millis=min(one.from_millis, other.from_millis),
        to_millis=max(one.to_millis, other.to_millis),
    )
