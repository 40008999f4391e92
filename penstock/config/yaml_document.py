"""A YAML file as nodes that have their line and column, and the error that shows them.

    broker.yaml:7:3: topic_defaults.retention_ms: unknown key; did you mean retention.ms?

Only what a configuration needs: mappings with text as keys, lists, scalars. Refused, each with a
one-line error: duplicate keys, anchors and aliases (so that a small file cannot grow into a large
one), explicit tags, a second document, files of more than a megabyte, more than twenty levels. The
first three leave a `WrongNode`, and reading goes on: one run lists all mistakes of a file.

The parser's events are read one by one without any YAML constructor: a scalar stays text until its
type is known.
"""

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import yaml

from ground.printable import one_line

_LONGEST_KEY = 120
_MOST_MISTAKES = 100
MAX_BYTES = 1_000_000
MAX_DEPTH = 20


class ConfigurationError(Exception):
    """A mistake in a file. `where` is the file, line and column (or the option), `key` the dotted
    path; both may be empty. `mistakes` has a line for each mistake in the file, beginning with this
    one."""

    def __init__(self, where: str, key: str, message: str) -> None:
        key = key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + "…"
        line = one_line(": ".join(part for part in (where, key, message) if part))
        super().__init__(line)
        self.mistakes: tuple[str, ...] = (line,)

    def __str__(self) -> str:
        count = len(self.mistakes) - 1
        return f"{self.mistakes[0]} (and {count} more)" if count else self.mistakes[0]


class Mistakes:
    """The mistakes found so far in a file."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, mistake: ConfigurationError) -> None:
        """Adds a mistake. Raises ConfigurationError if there are too many."""
        self._lines += mistake.mistakes
        if len(self._lines) >= _MOST_MISTAKES:
            raise ConfigurationError("", "", "there are more mistakes: correct these first")

    def error(self, last: ConfigurationError | None = None) -> ConfigurationError:
        """Returns one error for all mistakes. `last` is the one that ended the reading."""
        lines = (*self._lines, *(last.mistakes if last else ()))
        error = ConfigurationError("", "", lines[0])
        error.mistakes = lines
        return error


def unknown_key(where: str, key: str, name: str, known: Sequence[str]) -> ConfigurationError:
    """Returns the error for the unknown key `name`, which names the most similar key."""
    nearest = nearest_key(name, known)
    hint = f"did you mean {nearest}?" if nearest else f"known keys are {', '.join(known)}"
    return ConfigurationError(where, key, f"unknown key; {hint}")


def nearest_key(name: str, known: Sequence[str]) -> str:
    """Returns the key that `name` may be a misspelling of; empty if there is none."""
    matches = difflib.get_close_matches(name[:_LONGEST_KEY], known, n=1, cutoff=0.6)
    return matches[0] if matches else ""


class ScalarNode(msgspec.Struct, frozen=True):
    """Text as it is in the file; `plain` if it is not quoted."""

    where: str
    text: str
    plain: bool = True


class ListNode(msgspec.Struct, frozen=True):
    where: str
    items: list["Node"] = []


class MappingNode(msgspec.Struct, frozen=True):
    """A mapping. `keys` has the position of each of its keys."""

    where: str
    entries: dict[str, "Node"] = {}
    keys: dict[str, str] = {}

    def key_position(self, name: str) -> str:
        return self.keys.get(name, self.where)


class WrongNode(msgspec.Struct, frozen=True):
    """A value that YAML allows but a configuration does not; its mistake has been recorded."""

    where: str


Node = ScalarNode | ListNode | MappingNode | WrongNode


def read_document(path: Path, mistakes: Mistakes) -> MappingNode:
    """Returns the mapping in the file, which is empty for an empty file. Adds mistakes to
    `mistakes` if the rest can still be read; raises ConfigurationError for any other."""
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

    node = parse(text, str(path), mistakes)
    if isinstance(node, ScalarNode) and not node.text and node.plain:
        return MappingNode(str(path))
    if not isinstance(node, MappingNode):
        raise ConfigurationError(node.where, "", "expected a mapping of keys to values")
    return MappingNode(str(path), node.entries, node.keys)


def parse(text: str, source: str, mistakes: Mistakes) -> Node:
    """Returns the single node in `text`; errors name `source` as its origin."""
    events = _Events(text, source, mistakes)
    event = events.next()
    if isinstance(event, yaml.StreamEndEvent):
        return ScalarNode(source, "")
    node = _node(events, event, key="", depth=0)
    if not isinstance(events.next(), yaml.StreamEndEvent):
        raise ConfigurationError(source, "", "expected one YAML document, not several")
    return node


class _Events:
    """The parser's events that carry content, with errors as ConfigurationError."""

    def __init__(self, text: str, source: str, mistakes: Mistakes) -> None:
        self.source = source
        self.mistakes = mistakes
        self._events: Iterator[yaml.Event] = self._parse(text)

    def _parse(self, text: str) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            position = f"{self.source}:{mark.line + 1}:{mark.column + 1}" if mark else self.source
            raise ConfigurationError(position, "", f"not YAML: {error.problem}") from None
        except yaml.YAMLError as error:
            reason = str(error).splitlines()[0]
            raise ConfigurationError(self.source, "", f"not YAML: {reason}") from None

    def next(self) -> yaml.Event:
        frame = (yaml.StreamStartEvent, yaml.DocumentStartEvent, yaml.DocumentEndEvent)
        return next(event for event in self._events if not isinstance(event, frame))

    def where(self, event: yaml.Event) -> str:
        mark = event.start_mark
        return f"{self.source}:{mark.line + 1}:{mark.column + 1}" if mark else self.source

    def refuse(self, where: str, key: str, message: str) -> WrongNode:
        self.mistakes.add(ConfigurationError(where, key, message))
        return WrongNode(where)


def _node(events: _Events, event: yaml.Event, key: str, depth: int) -> Node:
    position = events.where(event)
    if depth > MAX_DEPTH:
        raise ConfigurationError(position, "", f"more than {MAX_DEPTH} levels deep")
    indirection = _indirection(event)
    node: Node
    match event:
        case yaml.AliasEvent():
            node = WrongNode(position)
        case yaml.ScalarEvent():
            node = ScalarNode(position, event.value, plain=event.implicit[0])
        case yaml.SequenceStartEvent():
            items: list[Node] = []
            while not isinstance(child := events.next(), yaml.SequenceEndEvent):
                items.append(_node(events, child, f"{key}[{len(items)}]", depth + 1))
            node = ListNode(position, items)
        case _:
            node = _mapping(events, position, key, depth)
    return events.refuse(position, key, indirection) if indirection else node


def _mapping(events: _Events, where: str, key: str, depth: int) -> MappingNode:
    entries: dict[str, Node] = {}
    keys: dict[str, str] = {}
    while not isinstance(event := events.next(), yaml.MappingEndEvent):
        position = events.where(event)
        if not isinstance(event, yaml.ScalarEvent):
            raise ConfigurationError(position, key, _indirection(event) or "a key must be text")
        if indirection := _indirection(event):
            events.refuse(position, key, indirection)
        path = f"{key}.{event.value}" if key else event.value
        node = _node(events, events.next(), path, depth + 1)
        if event.value in entries:
            node = events.refuse(position, path, f"given twice, first at {keys[event.value]}")
        entries[event.value] = node
        keys.setdefault(event.value, position)
    return MappingNode(where, entries, keys)


def _indirection(event: yaml.Event) -> str:
    """Why the event's anchor, alias or tag is refused; empty if it has none."""
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
        return "YAML's anchors (&) and aliases (*) are not supported"
    if getattr(event, "tag", None) is not None:
        return "YAML's tags (!) are not supported"
    return ""
