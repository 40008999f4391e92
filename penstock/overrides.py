"""`--set key=value`: one key of a configuration, put over what the file says.

The dots of a key may be part of a name (`topic_defaults.retention.ms`), so that a key is read with
the program's types at hand. Text that begins like a YAML list, mapping or quoted text is read as
YAML; all else is taken as it stands.
"""

from msgspec import inspect

from penstock.allowed_values import is_text, mapping_in, struct_in
from penstock.configuration_errors import ConfigurationError, unknown_key
from penstock.yaml_document import MappingNode, Node, ScalarNode, parse


def override(document: MappingNode, struct: inspect.StructType, text: str) -> None:
    """Puts `key=value` into the document."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigurationError(f"--set {text}", "", "expected key=value")
    where = f"--set {key}"
    node: Node = ScalarNode(where, value)
    if value.startswith(("[", "{", '"', "'")):
        node = parse(value, where)
    _put(document, struct, key, node, where)


def _put(target: MappingNode, struct: inspect.StructType, key: str, node: Node, where: str) -> None:
    fields = {field.encode_name: field.type for field in struct.fields}
    if key in fields or _names_file_of_text(fields, key):
        # The last word on a text replaces an earlier one, whichever of the two ways it was given.
        twin = f"{key}_file" if key in fields else key.removesuffix("_file")
        if twin not in fields or key not in fields:
            target.entries.pop(twin, None)
        target.entries[key] = node
        return
    containing = [name for name in fields if key.startswith(f"{name}.")]
    if not containing:
        raise unknown_key(where, "", key.partition(".")[0], list(fields))
    name = max(containing, key=len)
    rest = key[len(name) + 1 :]
    if inner := struct_in(fields[name]):
        _put(_child(target, name, where), inner, rest, node, where)
    elif mapping := mapping_in(fields[name]):
        _put_into_mapping(_child(target, name, where), mapping, rest, node, where)
    else:
        raise ConfigurationError(where, "", f"{name} has no keys of its own")


def _put_into_mapping(
    target: MappingNode, mapping: inspect.DictType, key: str, node: Node, where: str
) -> None:
    inner = struct_in(mapping.value_type)
    name, dot, rest = key.partition(".")
    if inner is not None and dot:
        _put(_child(target, name, where), inner, rest, node, where)
    else:
        target.entries[key] = node


def _child(target: MappingNode, name: str, where: str) -> MappingNode:
    """The mapping under `name`; what is no mapping there is replaced by an empty one."""
    child = target.entries.get(name)
    if not isinstance(child, MappingNode):
        child = target.entries[name] = MappingNode(where)
    return child


def _names_file_of_text(fields: dict[str, inspect.Type], key: str) -> bool:
    text = fields.get(key.removesuffix("_file"))
    return key.endswith("_file") and text is not None and is_text(text)
