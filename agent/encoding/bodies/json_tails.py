"""Encodes JSON lines as the fields of events, many lines at once and column by column.

Lines that need no conversion are encoded first (`plain_json`). For the others, and without C,
msgspec reads each line into a struct with the schema's simple types, and each field becomes a
column that is encoded in one pass (`json_columns`). That does no conversions: if a line needs one,
or is invalid, its block is encoded again line by line with `TailEncoder.encode`, whose result
counts. So the result for a line never depends on its neighbours.

A field that was renamed is also read under its former names: each name is a column, and the columns
are merged where a line lacks the current name.

Lines are UTF-8. Fields that are not needed are only checked for valid JSON.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from agent.accounting.alterations import DroppedFields
from agent.encoding.bodies.json_columns import (
    Column,
    FieldColumn,
    constant_column,
    field_column,
    joined,
)
from agent.encoding.bodies.plain_json import NATIVE, PlainJson
from agent.encoding.bodies.tail_encoder import TailEncoder
from schemas.bodies.refusals import Misfit

BLOCK: Final = 128  # lines that are encoded again together

_MALFORMED: Final = "JSON is malformed: "
_NOT_FAST: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError, Misfit)

_Struct = Any  # made by msgspec from the schema
Decode = Callable[[bytes], _Struct]


class Tails(msgspec.Struct, frozen=True):
    """One body for each line, or None if the line was refused: `refused` has the reason by index.

    `taken` has a column for each requested field: its JSON value, None if it is missing or the line
    is not JSON. `dropped` counts unknown fields in lines that have a body.
    """

    bodies: list[bytes | None]
    taken: tuple[list[Any], ...]
    refused: dict[int, str]
    dropped: DroppedFields


class JsonTails:
    """Encodes the JSON lines of an input. Not thread-safe.

    `take` are fields to return, whether the schema has them or not. `constants` are fields with
    fixed values, which override the line's. With `only_known`, lines with any other field are
    refused.
    """

    def __init__(
        self,
        encoder: TailEncoder,
        *,
        take: Sequence[str] = (),
        constants: Mapping[str, Any] | None = None,
        only_known: bool = False,
        native: bool = NATIVE,
    ) -> None:
        """Raises ValueError if a constant does not fit the schema."""
        self._encoder = encoder
        self._constants = dict(constants or {})
        self._plain = PlainJson(
            encoder,
            take=take,
            constants={
                name: encoder.encode_field(name, value)
                for name, value in self._constants.items()
                if name in encoder.types
            },
            only_known=only_known,
            native=native,
        )
        former_names = [alias for aliases in encoder.aliases.values() for alias in aliases]
        names = [*dict.fromkeys([*encoder.names, *take, *self._constants, *former_names])]
        self._known = frozenset(names)
        self._attributes = {name: f"f{index}" for index, name in enumerate(names)}
        columns = {field[0]: self._column(field, take) for field in encoder.fields}
        ignored_column = FieldColumn(Any, None, lambda _: ())
        needed_columns = {name: columns.get(name, ignored_column) for name in names} | {
            alias: columns[name]
            for name, aliases in encoder.aliases.items()
            for alias in aliases
            if name not in self._constants
        }
        self._decode = self._decoder(needed_columns, only_known)
        self._decode_known = self._decode if only_known else self._decoder(needed_columns, True)
        unset_column = FieldColumn(Any, msgspec.UNSET, lambda _: ())
        self._decode_as_it_is = self._decoder(dict.fromkeys(names, unset_column), only_known)
        self._nothing = self._decode_as_it_is(b"{}")
        self._parts = [column.encode for column in columns.values()]
        self._columns = _columns([self._attributes[name] for name in columns])
        self._taken = _columns([self._attributes[name] for name in take])
        self._takes = len(take)
        self._renamed_columns = self._renamed([*columns])
        self._renamed_taken = self._renamed(take)
        self._needed = {field[0] for field in encoder.fields if field[-1] is None}

    def encode(self, lines: Sequence[bytes]) -> Tails:
        bodies, taken_columns, unknown_fields = self._plain.encode(lines)
        dropped_fields = DroppedFields()
        for name, count in unknown_fields.items():
            dropped_fields.add([name], count)
        indexes = [index for index, body in enumerate(bodies) if body is None]
        if not indexes:
            return Tails(bodies, taken_columns, {}, dropped_fields)
        other_tails = self._converted([lines[index] for index in indexes], dropped_fields)
        if len(indexes) == len(lines):
            return other_tails
        for column, other_column in zip(
            (bodies, *taken_columns), (other_tails.bodies, *other_tails.taken), strict=True
        ):
            for index, value in zip(indexes, other_column, strict=True):
                column[index] = value
        refusals = {indexes[index]: reason for index, reason in other_tails.refused.items()}
        return Tails(bodies, taken_columns, refusals, dropped_fields)

    def dropped_by(self, lines: Iterable[bytes]) -> DroppedFields:
        """Counts the unknown fields of these lines, which are JSON objects."""
        dropped_fields = DroppedFields()
        self._note_dropped(lines, dropped_fields)
        return dropped_fields

    def _note_dropped(self, lines: Iterable[bytes], dropped: DroppedFields) -> None:
        for line in lines:
            dropped.add(_names(line) - self._known)

    def _converted(self, lines: Sequence[bytes], dropped: DroppedFields) -> Tails:
        bodies: list[bytes | None] = []
        values_by_field: list[list[Any]] = [[] for _ in range(self._takes)]
        refusals: dict[int, str] = {}
        for start in range(0, len(lines), BLOCK):
            structs = self._block(lines[start : start + BLOCK], bodies, refusals, dropped)
            columns = self._with_former(self._renamed_taken, self._taken(structs), structs)
            for field_values, column in zip(values_by_field, columns, strict=True):
                field_values += [None if value is msgspec.UNSET else value for value in column]
        return Tails(bodies, tuple(values_by_field), refusals, dropped)

    def _block(
        self,
        lines: Sequence[bytes],
        bodies: list[bytes | None],
        refused: dict[int, str],
        dropped: DroppedFields,
    ) -> list[_Struct]:
        try:
            structs = list(map(self._decode_known, lines))
            bodies += self._bodies(structs)
        except _NOT_FAST:
            begin = len(bodies)
            structs = self._odd_block(lines, bodies, refused)
            if self._decode_known is not self._decode:
                encoded_lines = zip(lines, bodies[begin:], strict=True)
                self._note_dropped(
                    (line for line, body in encoded_lines if body is not None), dropped
                )
        return structs

    def _odd_block(
        self, lines: Sequence[bytes], bodies: list[bytes | None], refused: dict[int, str]
    ) -> list[_Struct]:
        """Encodes a block in which lines have unknown fields, or are not simple."""
        try:
            structs = list(map(self._decode, lines))
            bodies += self._bodies(structs)
        except _NOT_FAST:
            return self._mixed_block(lines, bodies, refused)
        return structs

    def _mixed_block(
        self, lines: Sequence[bytes], bodies: list[bytes | None], refused: dict[int, str]
    ) -> list[_Struct]:
        """Encodes the simple lines at once, and the others one by one."""
        structs = list(map(self._decoded, lines))
        decoded_structs = [struct for struct in structs if struct is not None]
        try:
            quick_bodies = iter(self._bodies(decoded_structs) if decoded_structs else ())
        except _NOT_FAST:
            structs = [None] * len(lines)
        for index, line in enumerate(lines):
            if structs[index] is not None:
                bodies.append(next(quick_bodies))
            else:
                structs[index] = self._encode_line(line, bodies, refused)
        return structs

    def _decoded(self, line: bytes) -> _Struct | None:
        try:
            return self._decode(line)
        except _NOT_FAST:
            return None

    def _encode_line(
        self, line: bytes, bodies: list[bytes | None], refused: dict[int, str]
    ) -> _Struct:
        struct, body = self._nothing, None
        try:
            struct = self._decode_as_it_is(line)
            body = self._encoder.encode(self._fields(struct))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            refused[len(bodies)] = _reason(error)
        bodies.append(body)
        return struct

    def _column(self, field: Any, take: Sequence[str]) -> FieldColumn:
        name = field[0]
        if name in self._constants:
            return constant_column(self._encoder.encode_field(name, self._constants[name]))
        field_names = {name, *self._encoder.aliases.get(name, ())}
        as_it_is = not field_names.isdisjoint(take)
        column = field_column(self._encoder.types[name], field, as_it_is=as_it_is)
        if name not in self._encoder.aliases:
            return column
        json = column.json if column.json is Any else column.json | msgspec.UnsetType
        return replace(column, json=json, default=msgspec.UNSET)

    def _renamed(self, names: Sequence[str]) -> "list[_Renamed]":
        """Those columns whose fields have former names."""
        return [
            _Renamed(
                index,
                name,
                _columns([self._attributes[former_name] for former_name in former_names]),
            )
            for index, name in enumerate(names)
            if (former_names := self._encoder.aliases.get(name)) and name not in self._constants
        ]

    def _with_former(
        self,
        renamed: "Sequence[_Renamed]",
        columns: tuple[Column, ...],
        structs: Sequence[_Struct],
    ) -> tuple[Column, ...]:
        """The columns, completed by the values under former names."""
        if not renamed:
            return columns
        all_columns = list(columns)
        for index, _, former_columns in renamed:
            column = all_columns[index]
            for former_column in former_columns(structs):
                if msgspec.UNSET not in column:
                    break
                column = [
                    former_value if value is msgspec.UNSET else value
                    for value, former_value in zip(column, former_column, strict=True)
                ]
            all_columns[index] = column
        return tuple(all_columns)

    def _decoder(self, columns: Mapping[str, FieldColumn], only_known: bool) -> Decode:
        """A decoder from a line to a struct with attributes f0, f1 and so on."""
        struct = msgspec.defstruct(
            "Line",
            [
                (self._attributes[name], column.json)
                if column.default is msgspec.NODEFAULT
                else (self._attributes[name], column.json, column.default)
                for name, column in columns.items()
            ],
            rename={attribute: name for name, attribute in self._attributes.items()},
            kw_only=True,
            gc=False,
            forbid_unknown_fields=only_known,
        )
        return msgspec.json.Decoder(struct).decode

    def _bodies(self, structs: Sequence[_Struct]) -> list[bytes]:
        header_rest = self._encoder.header_rest
        if not self._parts:
            return [header_rest] * len(structs)
        self._encoder.begin()
        parts: list[Iterable[bytes]] = (
            [itertools.repeat(header_rest, len(structs))] if header_rest else []
        )
        columns = self._with_former(self._renamed_columns, self._columns(structs), structs)
        for index, name, _ in self._renamed_columns:
            if name in self._needed and msgspec.UNSET in columns[index]:
                raise Misfit("it is missing").inside(name)
        for encoded_part, column in zip(self._parts, columns, strict=True):
            parts += encoded_part(column)
        return joined(tuple(parts))

    def _fields(self, struct: _Struct) -> Mapping[str, Any]:
        present_names = {
            name: value
            for name, attribute in self._attributes.items()
            if (value := getattr(struct, attribute)) is not msgspec.UNSET
        }
        return present_names | self._constants


class _Renamed(NamedTuple):
    """A renamed field: its column's index, its name, and the columns of its former names."""

    at: int
    name: str
    former: Callable[[Sequence[_Struct]], tuple[Column, ...]]


_decode_names: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _names(line: bytes) -> Set[str]:
    """The names of a line's fields. Names of unknown fields are unchecked and may be any bytes."""
    try:
        return _decode_names(line).keys()
    except UnicodeDecodeError:
        return _decode_names(line.decode(errors="replace")).keys()


def _columns(attributes: Sequence[str]) -> Callable[[Sequence[_Struct]], tuple[Column, ...]]:
    """Generates the fastest code: `([each.f0 for each in structs], …,)`."""
    assert all(re.fullmatch(r"f\d+", attribute) for attribute in attributes)
    list_expressions = "".join(f"[each.{name} for each in structs]," for name in attributes)
    extract: Callable[[Sequence[_Struct]], tuple[Column, ...]]
    extract = eval(f"lambda structs: ({list_expressions})")  # noqa: S307  no name from outside stands in it
    return extract


def _reason(error: Exception) -> str:
    match error:
        case msgspec.ValidationError():
            text = str(error)
            if text.startswith("Object contains unknown field `"):
                return f"the schema has no field {text.partition('`')[2].partition('`')[0]!r:.80}"
            return "JSON, but not an object" if "object" in text else f"not JSON: {text}"
        case msgspec.DecodeError():
            return f"not JSON: {str(error).removeprefix(_MALFORMED)}"
        case UnicodeDecodeError():
            return f"not JSON: invalid UTF-8 at byte {error.start} of a string"
        case RecursionError():
            return "nested too deeply"
    return str(error)
