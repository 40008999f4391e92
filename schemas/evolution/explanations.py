"""Explains incompatibilities to people, in one sentence each.

A sentence names the place (the field's path, and a JSON pointer into the reader's schema), the
fault, which schema cannot read the other's data, and the fix, which always changes the new schema.
If a union lacks a branch, the fault in the branch of the same name is explained, if there is one.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from schemas.definitions.type_descriptions import type_in_words
from schemas.definitions.types import Named, Type
from schemas.evolution.findings import Below, Found, FoundBelow, IncompatibilityKind, Steps

__all__ = ["Side", "explanations"]

_MOST_SENTENCES: Final = 100
_MOST_SYMBOLS: Final = 10
_LONGEST_PATH: Final = 500
_LONGEST_WORDS: Final = 500


class Side(msgspec.Struct, frozen=True):
    """One side of a comparison, the new schema or an old one, with its name in sentences."""

    name: str
    is_new: bool = False

    def __str__(self) -> str:
        return self.name


def explanations(findings: Found, reader: Side, writer: Side) -> list[str]:
    """Returns a sentence per finding, up to a limit. Omits repeated findings."""
    sentences: list[str] = []
    for where, finding in _walk(findings):
        if len(sentences) == _MOST_SENTENCES:
            sentences.append("there is more, which is left out here")
            break
        fault, cure = _PHRASES[finding.kind](where, finding, reader, writer)
        place = _place(where, finding, reader)
        sentences.append(
            f"{place} {fault}, so data of {writer} cannot be read with {reader}; {cure}"
        )
    return sentences


class _Where(msgspec.Struct, frozen=True):
    """The place of a finding: `path` leads there from `top`, the record that is the whole
    schema."""

    path: str = ""
    top: Type | None = None
    pointer: str = ""
    enum_without_source: bool = False
    branch: bool = False  # a branch of the writer's union

    def inside(self, below: Below) -> "_Where":
        if below.part:
            path = f"{self.path}.{below.part}" if self.path else below.part
        else:
            path = self.path + {"items": "[]", "values": "{}"}.get(below.steps[0], "")
        top = below.reader if below.part and not self.path else self.top
        branch = below.steps[0].isdigit()
        return _Where(_end(path), top, self.at(below.steps), below.enum_without_source, branch)

    def at(self, steps: Steps) -> str:
        return _end("/".join([self.pointer, *steps]))


def _walk(findings: Found) -> Iterator[tuple[_Where, FoundBelow]]:
    """Each finding once, with its place. The tree may be deep, and its parts shared."""
    pending_findings = [(_Where(), item) for item in reversed(findings)]
    seen_ids: set[int] = set()
    while pending_findings:
        where, item = pending_findings.pop()
        inner_findings: Found = ()
        if isinstance(item, Below):
            where, inner_findings = where.inside(item), item.found
        elif item.because:
            where, inner_findings = (
                _Where(where.path, where.top, where.at(item.steps)),
                item.because,
            )
        else:
            yield where, item
        if id(inner_findings) not in seen_ids:
            seen_ids.add(id(inner_findings))
            pending_findings += [
                (where, inner_finding) for inner_finding in reversed(inner_findings)
            ]


def _place(where: _Where, finding: FoundBelow, reader: Side) -> str:
    path, top = where.path, where.top
    if finding.kind in {
        IncompatibilityKind.READER_FIELD_MISSING_DEFAULT_VALUE,
        IncompatibilityKind.AMBIGUOUS_FIELD,
    }:
        field = finding.names[0]
        path, top = (f"{path}.{field}", top) if path else (field, finding.reader)
    pointer = where.at(finding.steps) or "/"
    at = f"(at {pointer})" if reader.is_new else f"(at {pointer} of {reader})"
    if path:
        return f"field `{_end(path)}`{f' of {_name(top)}' if top else ''} {at}:"
    return f"the schema {at}:"


_Phrases = tuple[str, str]  # the fault, and the fix


def _missing_default(where: _Where, finding: FoundBelow, reader: Side, writer: Side) -> _Phrases:
    cure = "give it a default, or its former name as an alias" if reader.is_new else "keep it"
    return f"is not in {writer} and has no default in {reader}", cure


def _types(where: _Where, finding: FoundBelow, reader: Side, writer: Side) -> _Phrases:
    if where.enum_without_source:
        fault, cure = _missing_default(where, finding, reader, writer)
        return f"{fault} (that of its enum is for unknown symbols)", cure
    reader_words, writer_words = _words(finding.reader), _words(finding.writer)
    if where.branch:
        cure = "make it a union" if reader.is_new else f"leave {writer_words} out"
        return f"is {reader_words} in {reader} but may be {writer_words} in {writer}", cure
    cure = (
        f"keep {writer_words}, or make it a union of both"
        if reader.is_new
        else f"keep {reader_words}"
    )
    return f"is {reader_words} in {reader} but {writer_words} in {writer}", cure


def _names(where: _Where, finding: FoundBelow, reader: Side, writer: Side) -> _Phrases:
    cure = f", or give it the alias {_name(finding.writer)}" if reader.is_new else ""
    fault = f"is {_words(finding.reader)} in {reader} but {_words(finding.writer)} in {writer}"
    return fault, f"keep the name{cure}"


def _sizes(where: _Where, finding: FoundBelow, reader: Side, writer: Side) -> _Phrases:
    size, writer_size = finding.names
    return f"has {size} bytes in {reader} but {writer_size} in {writer}", "keep the size"


def _symbols(where: _Where, finding: FoundBelow, reader: Side, writer: Side) -> _Phrases:
    missing_symbols = ", ".join(finding.names[:_MOST_SYMBOLS])
    if len(finding.names) > _MOST_SYMBOLS:
        missing_symbols += f" and {len(finding.names) - _MOST_SYMBOLS} more"
    fault = f"lacks the symbols {_cut(missing_symbols)} in {reader}, which {writer} has"
    cure = "add them, or give the enum a default" if reader.is_new else "leave them out"
    return f"{fault}, and its enum {_name(finding.reader)} has no default", cure


def _branches(where: _Where, finding: FoundBelow, reader: Side, writer: Side) -> _Phrases:
    fault = f"is a union in {reader} that has nothing for {_words(finding.writer)} of {writer}"
    return fault, "add it to the union" if reader.is_new else "leave it out"


def _ambiguous(where: _Where, finding: FoundBelow, reader: Side, writer: Side) -> _Phrases:
    fields = list(dict.fromkeys(finding.names[1:]))
    cure = "drop the alias" if reader.is_new else f"drop or rename {_cut(fields[-1])}"
    if len(fields) == 1:
        return f"is its own alias in {reader}, and that finds it twice in {writer}", cure
    return (
        f"has aliases in {reader} that are several fields in {writer}: {_cut(', '.join(fields))}",
        cure,
    )


def _not_judged(where: _Where, finding: FoundBelow, reader: Side, writer: Side) -> _Phrases:
    fault = f"is too large, or too entangled, to be compared with that of {writer}"
    return fault, "make it simpler"


_PHRASES: Final[dict[IncompatibilityKind, Callable[[_Where, FoundBelow, Side, Side], _Phrases]]] = {
    IncompatibilityKind.READER_FIELD_MISSING_DEFAULT_VALUE: _missing_default,
    IncompatibilityKind.TYPE_MISMATCH: _types,
    IncompatibilityKind.NAME_MISMATCH: _names,
    IncompatibilityKind.FIXED_SIZE_MISMATCH: _sizes,
    IncompatibilityKind.MISSING_ENUM_SYMBOLS: _symbols,
    IncompatibilityKind.MISSING_UNION_BRANCH: _branches,
    IncompatibilityKind.AMBIGUOUS_FIELD: _ambiguous,
    IncompatibilityKind.NOT_JUDGED: _not_judged,
}


def _words(type_: Type) -> str:
    return _cut(type_in_words(type_))


def _name(type_: Type) -> str:
    return _cut(type_.name.full if isinstance(type_, Named) else type_.kind)


def _end(path: str) -> str:
    return path if len(path) <= _LONGEST_PATH else "…" + path[1 - _LONGEST_PATH :]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_WORDS else text[: _LONGEST_WORDS - 1] + "…"
