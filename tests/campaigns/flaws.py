"""Programs that are broken on purpose: a judge that never objected to anything shows nothing.

A campaign's module `broken` is a program that leaves out a rule: the one that BROKEN names in its
environment. It puts a function in the place of one or two of the product's, in its own process, and
then runs `penstock`; the product has no switch for that. `FLAWS` says by which rules of the judge's
each must be caught, with the script in scripts/ that makes it show. Whole programs must come
through the same scripts.
"""

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from penstock.command_line import main

BROKEN: Final = "PENSTOCK_BROKEN"


class Flaw(msgspec.Struct, frozen=True):
    rule: str  # of the docs
    left_out: str
    script: str
    breaks: frozenset[str]  # one of them, at least
    make: Callable[[], object] = lambda: None

    def is_caught_by(self, rules: Collection[str]) -> bool:
        return not self.breaks.isdisjoint(rules)


def in_place_of(
    owner: object, name: str
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """A function that is called where another one was, which it gets as its first argument."""
    before: Any = getattr(owner, name)

    def put(function: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object, **named: object) -> object:
            return function(before, *arguments, **named)

        setattr(owner, name, called)
        return function

    return put


def run_broken(flaws: Mapping[str, Flaw]) -> None:
    """`penstock`, broken."""
    flaws[os.environ[BROKEN]].make()
    main()
