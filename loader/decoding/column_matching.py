"""Finds the column of a table for each field of the latest schema. Pure.

A column keeps its name for ever, and remembers the names that its field has had. So a renamed field
stays in its column: files from before and after have one column, whoever wrote the events.

Rule 1: a field has the column whose field had its name last; if there is none, a column that was
        never renamed and has its name in another case, which Spark ignores.
Rule 2: otherwise the column whose field had one of its aliases as its last name.
Rule 3: otherwise a column whose field once had its name: a renaming was taken back.
Rule 4: otherwise a column whose field once had one of its aliases as its name.
Rule 5: otherwise it gets a new column. A name that is taken gets underscores.

A rule is applied to all fields of a record before the next one, and a column has one field. By the
rules 2 to 4 a field only gets a column that can be widened to hold its values.

So a field that takes the name of a renamed one gets a column of its own:

    schema                           column user has      column user_ has
    user                             user
    customer, with alias user        customer
    customer, and another user       customer             user
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from columns.column_types import free_names
from columns.field_names import aliases, column, field_name, given_names
from loader.decoding.columns import ORIGIN

# Returns the type for values of both, of a column of this name; None if there is none.
Widen = Callable[[pa.DataType, pa.DataType, str], pa.DataType | None]
_Names = Callable[[pa.Field], Iterable[str]]


def matched(
    former: Sequence[pa.Field], latest: Sequence[pa.Field], widen: Widen, widen_same: Widen
) -> Iterator[pa.Field]:
    """The columns of the latest fields, in their order, followed by the former columns that have no
    field any more. `widen_same` is for fields that keep their name."""
    matching = _Matching(former, latest)
    matching.by(_new_column, _never_renamed, widen_same)
    matching.by(_name, _last_names, widen_same)
    matching.by(_in_any_case(_new_column), _in_any_case(_never_renamed), widen_same)
    matching.by(aliases, _last_names, widen)
    matching.by(_name, _earlier_names, widen)
    matching.by(aliases, _earlier_names, widen)
    return matching.columns()


def renamed(former: pa.Schema, latest: pa.Schema) -> Iterator[tuple[str, str, str]]:
    """The columns whose fields were renamed, with the former name and the latest. Columns within
    others have paths with dots."""
    yield from _renamed(former, latest, "")


def _name(field: pa.Field) -> Iterable[str]:
    return (field_name(field),)


def _new_column(field: pa.Field) -> Iterable[str]:
    """The name that its column would have in a new table."""
    return (field.name,)


def _never_renamed(column_: pa.Field) -> Iterable[str]:
    return () if given_names(column_) else (column_.name,)


def _last_names(column_: pa.Field) -> Iterable[str]:
    """The last name of the field of a column, which columns that the loader adds do not have."""
    return given_names(column_)[:1] or (() if column_.name in ORIGIN else (column_.name,))


def _earlier_names(column_: pa.Field) -> Iterable[str]:
    return given_names(column_)[1:]


def _in_any_case(names_of: _Names) -> _Names:
    return lambda field: (name.lower() for name in names_of(field))


class _Matching:
    def __init__(self, former: Sequence[pa.Field], latest: Sequence[pa.Field]) -> None:
        self._former: Final = former
        self._latest: Final = latest
        self._free: Final = dict.fromkeys(range(len(former)))  # columns without a field
        self._columns: Final[dict[int, pa.Field]] = {}  # by the position of the field
        self._tried: Final[set[tuple[int, int]]] = set()

    def by(self, names_of: _Names, names_in: _Names, widen: Widen) -> None:
        """Matches fields that have no column yet, by their `names_of`, with columns that have no
        field yet, by their `names_in`."""
        places: dict[str, list[int]] = {}
        for place in self._free:
            for name in names_in(self._former[place]):
                places.setdefault(name, []).append(place)
        for index, field in enumerate(self._latest):
            for name in names_of(field):
                for place in places.get(name, ()):
                    self._match(index, place, widen)

    def columns(self) -> Iterator[pa.Field]:
        new = [index for index in range(len(self._latest)) if index not in self._columns]
        used_names = {field.name.lower() for field in self._former}
        names = free_names((self._latest[index].name for index in new), used_names)
        for index, name in zip(new, names, strict=True):
            field = self._latest[index]
            self._columns[index] = column(name, field.type, (field_name(field),))
        for index in range(len(self._latest)):
            yield self._columns[index]
        for place in self._free:
            yield self._former[place]

    def _match(self, index: int, place: int, widen: Widen) -> None:
        if index in self._columns or place not in self._free or (index, place) in self._tried:
            return
        self._tried.add((index, place))
        field, column_ = self._latest[index], self._former[place]
        type_ = widen(column_.type, field.type, column_.name)
        if type_ is None:
            return
        del self._free[place]
        names = given_names(column_)
        if not names and column_.name != field.name:
            names = (column_.name,)
        self._columns[index] = column(column_.name, type_, (field_name(field), *names))


def _renamed(
    former: Iterable[pa.Field], latest: Iterable[pa.Field], path: str
) -> Iterator[tuple[str, str, str]]:
    former_fields = {field.name.lower(): field for field in former}
    for field in latest:
        previous = former_fields.get(field.name.lower())
        if previous is None:
            continue
        former_name = field_name(previous)
        if former_name in given_names(field)[1:] and former_name != field_name(field):
            yield f"{path}{field.name}", former_name, field_name(field)
        yield from _renamed(_inner(previous.type), _inner(field.type), f"{path}{field.name}.")


def _inner(type_: pa.DataType) -> Iterable[pa.Field]:
    while pa.types.is_list(type_) or pa.types.is_map(type_):
        type_ = type_.value_type if pa.types.is_list(type_) else type_.item_type
    return type_ if pa.types.is_struct(type_) else ()
