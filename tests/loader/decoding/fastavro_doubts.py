"""Schemas with which fastavro reads otherwise than Avro says, and so is no witness.

It takes the first branch of a reader's union that will do, where Avro takes the one of the same
type first; it looks at names and aliases without asking whether both are records, or enums; and it
cannot always read what stands in a union, if one schema has its name there and the other all of it.
"""

from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import Array, Map, Named, Record, Type, Union

NUMBERS = {"int", "long", "float", "double"}


def is_doubtful(reader: Type) -> bool:
    looking = _Looking()
    looking.at(reader, in_union=False)
    return looking.found


class _Looking:
    def __init__(self) -> None:
        self.found = False
        self._named: dict[int, bool] = {}
        """Whether it was in a union, by a type's identity."""

    def at(self, type_: Type, *, in_union: bool) -> None:
        if isinstance(type_, Named):
            if id(type_) in self._named:
                self.found |= in_union or self._named[id(type_)]
                return
            self._named[id(type_)] = in_union
        match type_:
            case Union():
                self.found |= not _are_distinct(type_)
                for branch in type_.branches:
                    self.at(branch, in_union=True)
            case Array():
                self.at(type_.items, in_union=False)
            case Map():
                self.at(type_.values, in_union=False)
            case Record():
                for field in type_.fields:
                    self.at(field.type, in_union=False)


def _are_distinct(union: Union) -> bool:
    kinds = {branch.kind for branch in union.branches}
    numbers = [branch for branch in union.branches if branch.kind in NUMBERS]
    names = [
        name
        for branch in union.branches
        if isinstance(branch, Named)
        for name in {branch.name.simple, *(alias.simple for alias in branch.aliases)}
    ]
    return (
        not {"bytes", "string"} <= kinds
        and not (len(numbers) > 1 and any(map(logical_type, numbers)))
        and len(names) == len(set(names))
    )
