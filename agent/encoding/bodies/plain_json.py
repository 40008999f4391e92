"""Encodes JSON lines that need no conversion as the fields of events, in one pass in C if compiled.

A line is encoded here if it is an object of strings, numbers, booleans and null, all of the types
that their fields have in the schema. Other lines get None as body and are left to `json_tails`,
which would encode every line to the same bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from agent.encoding.bodies.tail_encoder import TailEncoder
from ground.varints import VARINTS
from schemas.definitions.logical_types import logical_type
from schemas.definitions.types import Enum, Primitive, Type, Union

try:
    from agent.encoding.bodies._json_bodies import encode
except ImportError:
    NATIVE = False
else:
    NATIVE = True

_KINDS: Final = ("string", "int", "long", "float", "double", "boolean", "enum")
_OTHER: Final = len(_KINDS)  # the line is left unless the field is missing or null
_MOST: Final = 128  # names, and fields; enums with more than twice as many symbols are left
_CONSTANT: Final = -1

_Field: TypeAlias = tuple[int, int, bytes, bytes | None, bytes | None, tuple[bytes, ...]]
"""Its index in the names, its kind, the bytes before the value, those for null and for a missing
field (None: the line is left), and the symbols of an enum."""


class PlainJson:
    """The encoder of an input. `constants` are the bytes of fields with fixed values."""

    def __init__(
        self,
        encoder: TailEncoder,
        *,
        take: Sequence[str],
        constants: Mapping[str, bytes],
        only_known: bool,
        native: bool = NATIVE,
    ) -> None:
        names = [*dict.fromkeys([*encoder.names, *take, *constants])]
        indexes = {name: index for index, name in enumerate(names)}
        fields: list[_Field] = []
        for name, _, null, missing_value in encoder.fields:
            if name in constants:
                fields.append((_CONSTANT, _OTHER, b"", None, constants[name], ()))
                continue
            kind, prefix, symbols = _kind(encoder.types[name])
            fields.append((indexes[name], kind, prefix, null, missing_value, symbols))
        self._plan = (
            encoder.header_rest,
            only_known,
            tuple(name.encode() for name in names),
            tuple(fields),
            tuple(indexes[name] for name in take),
        )
        # A field that was renamed may come under any of its names.
        self.can_be = native and not encoder.aliases and len(names) <= _MOST
        self._takes = len(take)

    def encode(
        self, lines: Sequence[bytes]
    ) -> tuple[list[bytes | None], tuple[list[Any], ...], dict[str, int]]:
        """Returns the body of each line, a column with the JSON values of each taken field, and the
        number of dropped values by field name, counting only lines with a body. The empty name
        counts the fields beyond the first few."""
        if not self.can_be:
            return [None] * len(lines), tuple([None] * len(lines) for _ in range(self._takes)), {}
        return encode(self._plan, lines if isinstance(lines, list) else list(lines))


def _kind(type_: Type) -> tuple[int, bytes, tuple[bytes, ...]]:
    match type_:
        case Primitive() if type_.kind in _KINDS and logical_type(type_) is None:
            return _KINDS.index(type_.kind), b"", ()
        case Enum() if len(type_.symbols) <= 2 * _MOST:
            return _KINDS.index("enum"), b"", tuple(symbol.encode() for symbol in type_.symbols)
        case Union() if len(type_.branches) == 2:
            kinds = [branch.kind for branch in type_.branches]
            if "null" in kinds:
                index = 1 - kinds.index("null")
                kind, prefix, symbols = _kind(type_.branches[index])
                if kind != _OTHER and not prefix:
                    return kind, VARINTS[index], symbols
    return _OTHER, b"", ()
