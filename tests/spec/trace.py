"""A counterexample of TLC as a story: what happened, and what it changed, step by step."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tests.spec.values import Value, parse, shown

_STATE: Final = re.compile(r"^State \d+: <(.+?)(?: line .*)?>$", re.MULTILINE)
_VARIABLE: Final = re.compile(r"^/\\ (\w+) = ", re.MULTILINE)
# What only bounds the search, and what is told in other words.
_UNTOLD: Final = frozenset(
    {"appended", "asked", "crashes", "powerLosses", "diskLosses", "trims", "history", "known"}
)


class Step(msgspec.Struct, frozen=True):
    """An action, and the state after it."""

    action: str
    state: Mapping[str, Value]


def steps(output: str) -> list[Step]:
    """The steps of the first counterexample in what TLC has printed."""
    found = list(_STATE.finditer(output))
    ends = [each.start() for each in found[1:]] + [len(output)]
    return [
        Step(each[1], _state(output[each.end() : end].strip().split("\n\n")[0]))
        for each, end in zip(found, ends, strict=True)
    ]


def _state(text: str) -> dict[str, Value]:
    found = list(_VARIABLE.finditer(text))
    ends = [each.start() for each in found[1:]] + [len(text)]
    return {each[1]: parse(text[each.end() : end]) for each, end in zip(found, ends, strict=True)}


def told(story: Sequence[Step]) -> str:
    """A paragraph for each step: the action, then what is different after it."""
    lines = [f"  1  {story[0].action}: {_map(story[0].state)}"]
    for number, (before, after) in enumerate(itertools.pairwise(story), 2):
        lines.append(f"{number:3}  {after.action}")
        lines += [f"       {line}" for line in _changes(before.state, after.state)]
    return "\n".join(lines)


def _map(state: Mapping[str, Value]) -> str:
    history = state["history"]
    assert isinstance(history, tuple)
    return shown(history[-1])


def _changes(before: Mapping[str, Value], after: Mapping[str, Value]) -> Iterator[str]:
    if before["history"] != after["history"]:
        yield f"the map: {_map(after)}"
    yield from _read(before, after)
    for name in sorted(after.keys() - _UNTOLD):
        old, new = before[name], after[name]
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            for broker in new:
                if old[broker] != new[broker]:
                    yield f"{broker}: {name} {shown(new[broker])}"
        else:
            yield f"{name} {shown(new)}"


def _read(before: Mapping[str, Value], after: Mapping[str, Value]) -> Iterator[str]:
    old, new, history = before["known"], after["known"], after["history"]
    assert isinstance(old, Mapping)
    assert isinstance(new, Mapping)
    assert isinstance(history, tuple)
    for broker, place in new.items():
        if place != old[broker] and isinstance(place, int) and place > 0:
            yield f"{broker} now knows of the map: {shown(history[place - 1])}"
