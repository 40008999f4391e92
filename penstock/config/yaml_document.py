"""A YAML file as nodes that remember where they stand, and the error that says so in one line.

    broker.yaml:7: topic_defaults.retention_ms: unknown key; did you mean retention.ms?

Only what a configuration needs: mappings with text as keys, lists, scalars. Refused, each with a
one-line error: duplicate keys, anchors and aliases (so that a small file cannot grow into a large
one), explicit tags, a second document, files of more than a megabyte, more than twenty levels.

The parser's events are read one by one and no YAML constructor is involved: a scalar stays text
until somebody knows which type is wanted of it.
"""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import yaml

from ground.printable import one_line

_LONGEST_KEY = 120
MAX_BYTES = 1_000_000
MAX_DEPTH = 20


class ConfigurationError(Exception):
    """`where` is file and line (or the option), `key` the dotted path; both may be empty."""

    def __init__(self, where: str, key: str, message: str) -> None:
        key = key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + "…"
        line = ": ".join(part for part in (where, key, message) if part)
        super().__init__(one_line(line))
        self.where = where
        self.key = key


def unknown_key(where: str, key: str, name: str, known: Sequence[str]) -> ConfigurationError:
    """The error for the key `name`, with the nearest that exists."""
    near = difflib.get_close_matches(name[:_LONGEST_KEY], known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"known keys are {', '.join(known)}"
    return ConfigurationError(where, key, f"unknown key; {hint}")


class ScalarNode(msgspec.Struct, frozen=True):
    """Text as it stands in the file; `plain` if it is not quoted."""

    where: str
    text: str
    plain: bool = True


class ListNode(msgspec.Struct, frozen=True):
    where: str
    items: list["Node"] = []


class MappingNode(msgspec.Struct, frozen=True):
    where: str
    entries: dict[str, "Node"] = {}


Node = ScalarNode | ListNode | MappingNode


def read_document(path: Path) -> MappingNode:
    """The mapping that the file holds; an empty file is an empty mapping."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(str(path), "", error.strerror or str(error)) from None
    if len(content) > MAX_BYTES:
        raise ConfigurationError(str(path), "", f"more than {MAX_BYTES:,} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{path}:{line}", "", "not UTF-8") from None

    node = parse(text, str(path))
    if isinstance(node, ScalarNode) and not node.text and node.plain:
        return MappingNode(str(path))
    if not isinstance(node, MappingNode):
        raise ConfigurationError(node.where, "", "expected a mapping of keys to values")
    return MappingNode(str(path), node.entries)


def parse(text: str, source: str) -> Node:
    """The one node that `text` holds; `source` is what errors call it."""
    events = _Events(text, source)
    event = events.next()
    if isinstance(event, yaml.StreamEndEvent):
        return ScalarNode(source, "")
    node = _node(events, event, key="", depth=0)
    if not isinstance(events.next(), yaml.StreamEndEvent):
        raise ConfigurationError(source, "", "expected one YAML document, not several")
    return node


class _Events:
    """The parser's events without those that carry no content, and with our kind of error."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self._events: Iterator[yaml.Event] = self._parse(text)

    def _parse(self, text: str) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f"{self.source}:{mark.line + 1}" if mark else self.source
            raise ConfigurationError(where, "", f"not YAML: {error.problem}") from None
        except yaml.YAMLError as error:
            reason = str(error).splitlines()[0]
            raise ConfigurationError(self.source, "", f"not YAML: {reason}") from None

    def next(self) -> yaml.Event:
        frame = (yaml.StreamStartEvent, yaml.DocumentStartEvent, yaml.DocumentEndEvent)
        return next(event for event in self._events if not isinstance(event, frame))

    def where(self, event: yaml.Event) -> str:
        return f"{self.source}:{event.start_mark.line + 1}" if event.start_mark else self.source


def _node(events: _Events, event: yaml.Event, key: str, depth: int) -> Node:
    where = events.where(event)
    _refuse_indirection(event, where, key)
    if depth > MAX_DEPTH:
        raise ConfigurationError(where, "", f"more than {MAX_DEPTH} levels deep")
    match event:
        case yaml.ScalarEvent():
            return ScalarNode(where, event.value, plain=event.implicit[0])
        case yaml.SequenceStartEvent():
            items: list[Node] = []
            while not isinstance(child := events.next(), yaml.SequenceEndEvent):
                items.append(_node(events, child, f"{key}[{len(items)}]", depth + 1))
            return ListNode(where, items)
        case _:
            return _mapping(events, where, key, depth)


def _mapping(events: _Events, where: str, key: str, depth: int) -> MappingNode:
    entries: dict[str, Node] = {}
    while not isinstance(event := events.next(), yaml.MappingEndEvent):
        at = events.where(event)
        if not isinstance(event, yaml.ScalarEvent):
            _refuse_indirection(event, at, key)
            raise ConfigurationError(at, key, "a key must be text")
        _refuse_indirection(event, at, key)
        path = f"{key}.{event.value}" if key else event.value
        if event.value in entries:
            first = entries[event.value].where
            raise ConfigurationError(at, path, f"given twice, first at {first}")
        entries[event.value] = _node(events, events.next(), path, depth + 1)
    return MappingNode(where, entries)


def _refuse_indirection(event: yaml.Event, where: str, key: str) -> None:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
        raise ConfigurationError(where, key, "YAML's anchors (&) and aliases (*) are not supported")
    if getattr(event, "tag", None) is not None:
        raise ConfigurationError(where, key, "YAML's tags (!) are not supported")
