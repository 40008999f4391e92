"""Reads a YAML file into one typed value, or reports each of its mistakes on a line.

Rule 1: what a program accepts is its own `msgspec.Struct`; this module knows no program. A struct
checks what types cannot say in `__post_init__`, by raising ValueError.

Rule 2: every error names the file, line and column, the key, and what is allowed there. A value is
shown only if it stands in the file itself: what came from the environment or a secret's file is
not. A struct is checked by its `__post_init__` once its keys are right, so that one run finds the
mistakes of all structs.

Rule 3: text is what the wanted type makes of it. `rack: 7` is the text "7" where text is wanted,
`port: "9092"` is refused, `port: ${PORT}` is a number if the variable holds one.

`${NAME}` is filled in from the environment ($${ stands for itself). For any text key `x`, `x_file`
names a file that holds it.

Rule 4: `--set key=value` puts one key over what the file says. The dots of a key may be part of a
name (`topic_defaults.retention.ms`), so that a key is read with the program's types at hand. Text
that begins like a YAML list, mapping or quoted text is read as YAML; all else stands as it is.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from ground.known_types import known_type
from penstock.config.allowed_values import (
    allows_null,
    alternatives,
    describe,
    fits,
    is_text,
    list_in,
    mapping_in,
    struct_in,
)
from penstock.config.yaml_document import (
    ConfigurationError,
    ListNode,
    MappingNode,
    Mistakes,
    Node,
    ScalarNode,
    WrongNode,
    nearest_key,
    parse,
    read_document,
    unknown_key,
)

__all__ = ["ConfigurationError", "load"]
K = TypeVar("K")
T = TypeVar("T")
Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]
MAX_SECRET_BYTES = 65_536
_FILE = "_file"
_VARIABLE = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NAMED_KEY = re.compile(r"`([\w.]+)|^([\w.]+):")
_LONGEST_SHOWN = 40


class _Wrong:
    """The value of a node that has a mistake. A parent that contains one is wrong, too."""


_WRONG = _Wrong()


def load(
    kind: type[T],
    path: Path | None,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
) -> T:
    """Returns the configuration in the file. `overrides` (key=value) replace its values.

    Without a file the overrides are all there is. Raises ConfigurationError, and nothing else.
    """
    struct = struct_in(inspect.type_info(kind))
    if struct is None:
        raise TypeError(f"{kind} is not a msgspec.Struct")
    mistakes = Mistakes()
    values: dict[str, Value] | _Wrong = _WRONG
    try:
        document = MappingNode("") if path is None else read_document(path, mistakes)
        for text in overrides:
            try:
                override(document, struct, text, mistakes)
            except ConfigurationError as error:
                mistakes.add(error)
        values = _Reader(environment, mistakes).struct(document, struct, "")
    except ConfigurationError as error:
        raise mistakes.error(error) from None
    if mistakes:
        raise mistakes.error()
    return msgspec.convert(values, known_type(kind), dec_hook=_construct)


def _construct(kind: type[Any], value: Any) -> Any:
    """Types that msgspec does not know, such as Path, are made from the text."""
    return kind(value)


class _Filled(msgspec.Struct, frozen=True):
    """A scalar's text after the substitution of environment variables."""

    text: str
    plain: bool
    secret: bool


class _Reader(msgspec.Struct, frozen=True):
    """Reads the values of nodes. A wrong value becomes `_WRONG`, and its mistake is recorded."""

    environment: Mapping[str, str]
    mistakes: Mistakes

    def value(self, node: Node, kind: inspect.Type, key: str) -> "Value | _Wrong":
        try:
            match node:
                case ScalarNode():
                    return self.scalar(node, kind, key)
                case ListNode():
                    return self.list(node, kind, key)
                case MappingNode():
                    return self.mapping(node, kind, key)
                case WrongNode():
                    return _WRONG
        except ConfigurationError as error:
            return self.wrong(error)

    def wrong(self, mistake: ConfigurationError) -> _Wrong:
        self.mistakes.add(mistake)
        return _WRONG

    def mapping(self, node: MappingNode, kind: inspect.Type, key: str) -> "Value | _Wrong":
        if struct := struct_in(kind):
            return self.struct(node, struct, key)
        if mapping := mapping_in(kind):
            value_type = mapping.value_type
        elif _is_anything(kind):
            value_type = kind
        else:
            raise ConfigurationError(node.where, key, f"expected {describe(kind)}, not a mapping")
        return _unless_wrong(
            {
                name: self.value(child, value_type, f"{key}.{name}" if key else name)
                for name, child in node.entries.items()
            }
        )

    def list(self, node: ListNode, kind: inspect.Type, key: str) -> "Value | _Wrong":
        if list_type := list_in(kind):
            item_type = list_type.item_type
        elif _is_anything(kind):
            item_type = kind
        else:
            raise ConfigurationError(node.where, key, f"expected {describe(kind)}, not a list")
        items = {
            index: self.value(item, item_type, f"{key}[{index}]")
            for index, item in enumerate(node.items)
        }
        values = _unless_wrong(items)
        return values if isinstance(values, _Wrong) else [*values.values()]

    def struct(
        self, node: MappingNode, struct: inspect.StructType, key: str
    ) -> "dict[str, Value] | _Wrong":
        fields = {field.encode_name: field for field in struct.fields}
        prefix = f"{key}." if key else ""
        values: dict[str, Value | _Wrong] = {}
        misspelled_keys: set[str] = set()
        for name, child in node.entries.items():
            if name in fields:
                values[name] = self.value(child, fields[name].type, prefix + name)
                continue
            position = node.key_position(name)
            target = fields.get(name.removesuffix(_FILE))
            if not name.endswith(_FILE) or target is None or not is_text(target.type):
                values[name] = self.wrong(unknown_key(position, prefix + name, name, list(fields)))
                misspelled_keys.add(nearest_key(name, list(fields)))
            elif target.encode_name in node.entries:
                problem = f"set either {target.encode_name} or {name}, not both"
                values[name] = self.wrong(ConfigurationError(position, prefix + name, problem))
            else:
                try:
                    values[target.encode_name] = self.secret(child, target.type, prefix + name)
                except ConfigurationError as error:
                    values[target.encode_name] = self.wrong(error)
        for name, field in fields.items():
            if field.required and name not in values and name not in misspelled_keys:
                message = f"is missing; expected {describe(field.type)}"
                values[name] = self.wrong(ConfigurationError(node.where, prefix + name, message))
        result = _unless_wrong(values)
        return result if isinstance(result, _Wrong) else self.checked(result, node, struct, key)

    def checked(
        self, values: dict[str, Value], node: MappingNode, struct: inspect.StructType, key: str
    ) -> dict[str, Value] | _Wrong:
        """Returns the values if the struct's own `__post_init__` accepts them; otherwise records a
        mistake."""
        try:
            msgspec.convert(values, known_type(struct.cls), dec_hook=_construct)
        except msgspec.ValidationError as error:
            message = str(error)
            names = (name for match in _NAMED_KEY.finditer(message) for name in match.groups())
            position = next((node.keys[name] for name in names if name in node.keys), node.where)
            return self.wrong(ConfigurationError(position, key, message))
        return values

    def scalar(self, node: ScalarNode, kind: inspect.Type, key: str) -> "Value | _Wrong":
        scalar = self.fill(node, key)
        if scalar.plain and scalar.text in {"", "~", "null"} and not scalar.secret:
            return self.nothing(node, kind, key)
        candidates = (scalar.text,) if is_text(kind) else (_plain_value(scalar), scalar.text)
        for value in candidates[: 2 if scalar.plain else 1]:
            if fits(value, kind):
                return value
        shown_value = "" if scalar.secret else f", not {_shown(scalar)}"
        raise ConfigurationError(node.where, key, f"expected {describe(kind)}{shown_value}")

    def nothing(self, node: ScalarNode, kind: inspect.Type, key: str) -> "Value | _Wrong":
        """Returns the value of a key that is left empty, as when its mapping or list is commented
        out. Raises ConfigurationError if the key needs a value."""
        if allows_null(kind):
            return None
        if struct := struct_in(kind):
            return self.struct(MappingNode(node.where), struct, key)
        if mapping_in(kind):
            return {}
        if list_in(kind):
            return []
        raise ConfigurationError(node.where, key, f"has no value; expected {describe(kind)}")

    def fill(self, node: ScalarNode, key: str) -> _Filled:
        """Returns the text with ${NAME} replaced. Errors never show values from the environment."""
        is_secret = False

        def replace(match: re.Match[str]) -> str:
            nonlocal is_secret
            name = match[1]
            if name is None:
                return "${"
            if not _NAME.fullmatch(name) or not match[0].endswith("}"):
                problem = "expected ${NAME}; $${ stands for ${ itself"
                raise ConfigurationError(node.where, key, problem)
            if name not in self.environment:
                reason = f"the environment has no variable {name}"
                raise ConfigurationError(node.where, key, reason)
            is_secret = True
            return self.environment[name]

        text = _VARIABLE.sub(replace, node.text)
        return _Filled(text, node.plain or is_secret, is_secret)

    def secret(self, node: Node, kind: inspect.Type, key: str) -> Value:
        """Returns the text of the file that the node names, without the newline at its end."""
        if not isinstance(node, ScalarNode):
            raise ConfigurationError(node.where, key, "expected the path of a file")
        path = Path(self.fill(node, key).text)
        try:
            with path.open("rb") as file:
                content = file.read(MAX_SECRET_BYTES + 1)
            text = content.decode().removesuffix("\n").removesuffix("\r")
        except OSError as error:
            reason = f"{path}: {error.strerror or error}"
            raise ConfigurationError(node.where, key, reason) from None
        except UnicodeDecodeError:
            raise ConfigurationError(node.where, key, f"{path}: not UTF-8") from None
        if len(content) > MAX_SECRET_BYTES:
            raise ConfigurationError(node.where, key, f"{path}: more than {MAX_SECRET_BYTES} bytes")
        if not fits(text, kind):
            raise ConfigurationError(node.where, key, f"{path}: expected {describe(kind)}")
        return text


def _unless_wrong(values: Mapping[K, Value | _Wrong]) -> dict[K, Value] | _Wrong:
    valid_values = {key: value for key, value in values.items() if not isinstance(value, _Wrong)}
    return valid_values if len(valid_values) == len(values) else _WRONG


def _plain_value(filled: _Filled) -> str | int | float | bool:
    """YAML 1.2's reading of a plain scalar: a number, a boolean, or else text."""
    text = filled.text
    if not filled.plain:
        return text
    if text in {"true", "false"}:
        return text == "true"
    if len(text) <= _LONGEST_SHOWN and _WHOLE.fullmatch(text):
        return int(text)
    if len(text) <= _LONGEST_SHOWN and _DECIMAL.fullmatch(text):
        return float(text)
    return text


def _shown(filled: _Filled) -> str:
    text = filled.text
    if len(text) > _LONGEST_SHOWN:
        text = text[:_LONGEST_SHOWN] + "…"
    return text if filled.plain else f'"{text}"'


def _is_anything(kind: inspect.Type) -> bool:
    return any(isinstance(alternative, inspect.AnyType) for alternative in alternatives(kind))


def override(
    document: MappingNode, struct: inspect.StructType, text: str, mistakes: Mistakes
) -> None:
    """Puts `key=value` into the document."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ConfigurationError(f"--set {text}", "", "expected key=value")
    option = f"--set {key}"
    node: Node = ScalarNode(option, value)
    if value.startswith(("[", "{", '"', "'")):
        node = parse(value, option, mistakes)
    _put(document, struct, key, node, option)


def _put(target: MappingNode, struct: inspect.StructType, key: str, node: Node, where: str) -> None:
    fields = {field.encode_name: field.type for field in struct.fields}
    if key in fields or _names_file_of_text(fields, key):
        # The last word on a text replaces an earlier one, whichever of the two ways it was given.
        twin_key = f"{key}_file" if key in fields else key.removesuffix("_file")
        if twin_key not in fields or key not in fields:
            target.entries.pop(twin_key, None)
        target.entries[key] = node
        target.keys[key] = where
        return
    prefixes = [name for name in fields if key.startswith(f"{name}.")]
    if not prefixes:
        raise unknown_key(where, "", key.partition(".")[0], list(fields))
    name = max(prefixes, key=len)
    rest = key[len(name) + 1 :]
    if inner_struct := struct_in(fields[name]):
        _put(_child(target, name, where), inner_struct, rest, node, where)
    elif mapping := mapping_in(fields[name]):
        _put_into_mapping(_child(target, name, where), mapping, rest, node, where)
    else:
        raise ConfigurationError(where, "", f"{name} has no keys of its own")


def _put_into_mapping(
    target: MappingNode, mapping: inspect.DictType, key: str, node: Node, where: str
) -> None:
    inner_struct = struct_in(mapping.value_type)
    name, separator, rest = key.partition(".")
    if inner_struct is not None and separator:
        _put(_child(target, name, where), inner_struct, rest, node, where)
    else:
        target.entries[key] = node


def _child(target: MappingNode, name: str, where: str) -> MappingNode:
    """The mapping under `name`, which replaces any other value."""
    child = target.entries.get(name)
    if not isinstance(child, MappingNode):
        child = target.entries[name] = MappingNode(where)
    return child


def _names_file_of_text(fields: dict[str, inspect.Type], key: str) -> bool:
    text = fields.get(key.removesuffix("_file"))
    return key.endswith("_file") and text is not None and is_text(text)
