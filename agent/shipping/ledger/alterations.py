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
        previous = sums.get(key)
        sums[key] = statement if previous is None else _united(previous, statement)
    return [
        {
            "topic": altered_text.topic,
            "input": path_text(altered_text.input),
            "source": altered_text.source,
            "path": path_text(altered_text.path),
            "kind": altered_text.altered.kind.value,
            "name": path_text(altered_text.altered.name),
            "lines": altered_text.altered.lines,
            "count": altered_text.altered.count,
            "from_time": altered_text.from_millis,
            "to_time": altered_text.to_millis,
            "hint": altered_text.altered.hint,
        }
        for altered_text in sums.values()
    ]


def _united(first: AlteredText, other: AlteredText) -> AlteredText:
    return replace(
        first,
        altered=summed(first.altered, other.altered),
        from_millis=min(first.from_millis, other.from_millis),
        to_millis=max(first.to_millis, other.to_millis),
    )
