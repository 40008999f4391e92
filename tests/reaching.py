"""What a test reaches: by the names that its code has, and that of all it calls below `tests`.

Nothing is run for it, so it says what a test might start, before it starts it. Names are looked up
where the code would look them up; what is passed around as a value is not followed.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest


def reaches(item: pytest.Item, names: Collection[str]) -> bool:
    """Whether it is one of these: module and name, with a dot between."""
    return any(
        f"{getattr(each, '__module__', '')}.{getattr(each, '__qualname__', '')}" in names
        for each in reached(item)
    )


def deselect(
    config: pytest.Config, items: list[pytest.Item], is_meant: Callable[[pytest.Item], bool]
) -> None:
    left = [item for item in items if is_meant(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]


def reached(item: pytest.Item) -> Iterator[object]:
    """Functions and classes; those of fixtures that the test asks for, too, also by their name."""
    manager = item.session._fixturemanager
    asked = {*getattr(item, "_fixtureinfo").name2fixturedefs}  # noqa: B009
    call = getattr(item, "callspec", None)
    by_name = _texts(call.params.values()) if call else set()
    waiting: list[object] = [getattr(item, "function", None)]
    asks_by_name = False
    known: set[str] = set()
    while waiting:
        for start in waiting:
            for each in _from(start):
                yield each
                if isinstance(each, FunctionType) and _is_ours(each):
                    by_name |= _texts(_constants(each.__code__))
                    if "getfixturevalue" in _names(each.__code__):
                        asks_by_name = True
        if asks_by_name:
            asked |= by_name
        new = asked - known
        known |= new
        definitions = [each for name in new for each in manager.getfixturedefs(name, item) or ()]
        asked.update(name for each in definitions for name in each.argnames)
        waiting = [each.func for each in definitions]


@cache
def _from(start: Any) -> tuple[object, ...]:
    found: dict[int, object] = {}
    waiting: list[Any] = [start]
    while waiting:
        each = inspect.unwrap(waiting.pop())
        if id(each) in found:
            continue
        found[id(each)] = each
        if _is_ours(each):
            if isinstance(each, FunctionType):
                waiting.extend(_named(each))
            elif isinstance(each, type):
                waiting.extend(_methods(each))
                waiting.extend(each.__bases__)
    return tuple(found.values())


def _named(function: FunctionType) -> Iterator[object]:
    names = set(_names(function.__code__))
    modules = []
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            modules.append(value)
        elif callable(value):
            yield value
    for module in modules:
        yield from (
            getattr(module, name) for name in names if callable(getattr(module, name, None))
        )
    for cell in function.__closure__ or ():
        try:
            if callable(cell.cell_contents):
                yield cell.cell_contents
        except ValueError:
            continue  # not filled yet


def _is_ours(each: object) -> bool:
    return str(getattr(each, "__module__", None)).startswith("tests.")


def _texts(values: Iterable[object]) -> set[str]:
    return {each for each in values if isinstance(each, str)}


def _constants(code: CodeType) -> Iterator[object]:
    for constant in code.co_consts:
        yield constant
        if isinstance(constant, CodeType):
            yield from _constants(constant)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _methods(kind: type) -> Iterator[object]:
    for value in vars(kind).values():
        if isinstance(value, (staticmethod, classmethod)):
            yield value.__func__
        elif isinstance(value, property):
            yield from filter(None, (value.fget, value.fset))
        elif callable(value):
            yield value
