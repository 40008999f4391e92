from typing import Any, TypeAlias

_Field: TypeAlias = tuple[int, int, bytes, bytes | None, bytes | None, tuple[bytes, ...]]
_Plan: TypeAlias = tuple[bytes, bool, tuple[bytes, ...], tuple[_Field, ...], tuple[int, ...]]

def encode(
    plan: _Plan, lines: list[bytes], /
) -> tuple[list[bytes | None], tuple[list[Any], ...], dict[str, int]]: ...
