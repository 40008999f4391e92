"""What a test reaches: by the names that its code has, and that of all it calls in `tests`,
`harness` and `bench`.

Nothing is run for it, so it says what a test might start, before it starts it. Names are looked up
where the code would look them up; what is passed around as a value is not followed.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import msgspec
import pytest

# Tests of bench start what it measures.
OURS: Final = ("tests.", "bench.", "harness.")


class _Code(msgspec.Struct, frozen=True):
    """A function or a class, and all that it comes by."""

    objects: tuple[object, ...]
    names: frozenset[str]  # module and name of each, with a dot between
    texts: frozenset[str]  # that ours have: one may be the name of a fixture
    asks_by_name: bool


def reaches(item: pytest.Item, names: Collection[str]) -> bool:
    """Whether it is one of these: module and name, with a dot between."""
    return any(not each.names.isdisjoint(names) for each in _codes(item))


def reached(item: pytest.Item) -> Iterator[object]:
    """Functions and classes; those of fixtures that the test asks for, too, also by their name."""
    for each in _codes(item):
        yield from each.objects


def deselect(
    config: pytest.Config, items: list[pytest.Item], is_meant: Callable[[pytest.Item], bool]
) -> None:
    left = [item for item in items if is_meant(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]


def _codes(item: pytest.Item) -> tuple[_Code, ...]:
    manager: Any = item.session._fixturemanager
    call = getattr(item, "callspec", None)
    given = _texts(call.params.values()) if call else frozenset()
    return _codes_of(
        manager,
        item.parent,
        getattr(item, "function", None),
        frozenset(getattr(item, "_fixtureinfo").name2fixturedefs),  # noqa: B009
        frozenset(each for each in given if manager.getfixturedefs(each, item.parent)),
    )


@cache
def _codes_of(
    manager: Any, parent: Any, function: object, fixtures: frozenset[str], given: frozenset[str]
) -> tuple[_Code, ...]:
    """A test with many parameters mostly has the same for all of them: it is found once."""
    found: list[_Code] = []
    waiting: list[object] = [function]
    asked, by_name = set(fixtures), set(given)
    known: set[str] = set()
    while waiting:
        new_codes = [_from(start) for start in waiting]
        found.extend(new_codes)
        by_name.update(*(each.texts for each in new_codes))
        if any(each.asks_by_name for each in found):
            asked |= by_name
        new = asked - known
        known |= new
        definitions = [each for name in new for each in manager.getfixturedefs(name, parent) or ()]
        asked.update(name for each in definitions for name in each.argnames)
        waiting = [each.func for each in definitions]
    return tuple(found)


@cache
def _from(start: Any) -> _Code:
    found: dict[int, object] = {}
    waiting: list[Any] = [inspect.unwrap(start)]
    while waiting:
        each = waiting.pop()
        if id(each) not in found:
            found[id(each)] = each
            waiting.extend(_called_by(each))
    objects = tuple(found.values())
    codes = [each.__code__ for each in objects if isinstance(each, FunctionType) and _is_ours(each)]
    return _Code(
        objects=objects,
        names=frozenset(
            f"{getattr(each, '__module__', '')}.{getattr(each, '__qualname__', '')}"
            for each in objects
        ),
        texts=frozenset().union(*(_texts(_constants(code)) for code in codes)),
        asks_by_name=any("getfixturevalue" in _names(code) for code in codes),
    )


# By identity, as not all can be hashed; each is kept, so that its place is never another's.
_KNOWN: Final[dict[int, tuple[object, tuple[object, ...]]]] = {}


def _called_by(each: Any) -> tuple[object, ...]:
    """What it comes by at once, looked up once for all who come by it."""
    known = _KNOWN.get(id(each))
    if known is None:
        called: Iterable[Any] = ()
        if _is_ours(each):
            if isinstance(each, FunctionType):
                called = _named(each)
            elif isinstance(each, type):
                called = (*_methods(each), *each.__bases__)
        known = _KNOWN[id(each)] = (each, tuple(map(inspect.unwrap, called)))
    return known[1]


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
    return str(getattr(each, "__module__", None)).startswith(OURS)


def _texts(values: Iterable[object]) -> frozenset[str]:
    return frozenset(each for each in values if isinstance(each, str))


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
