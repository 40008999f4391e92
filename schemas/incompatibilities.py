"""What stands between data written with one schema and a reader that has another.

The verdicts, their order and where they point are those of Java's `SchemaCompatibility`, which
Confluent's registry asks and users' tools know. Rules:

1. Pairs of schemas are judged, each pair of objects once. A pair that is met again while it is
   being judged (types may contain themselves) counts as compatible until it is proven otherwise.
2. In Java, verdicts that rested on such an assumption survive it, and may let pass what cannot be
   read. Where the answer is to be "compatible" and an assumption has failed, we ask again, and
   forget what rested on assumptions that fail.
3. As in Java, logical types are not looked at, a record is compared to its end though its name is
   wrong already, and what is found inside a union's branch counts as one thing: the branch is
   missing. A pair that is met a second time is reported where it was met first, and inside unions
   paths begin at the branch.
4. Nothing here calls itself, and the work on one question is counted: schemas come from the
   network, and may be as deep, wide and entangled as ten megabytes allow.
"""

from collections.abc import Generator
from functools import lru_cache
from typing import Final, TypeAlias

from avro.schema import Schema

from schemas.findings import (
    COMPATIBLE,
    ROOT,
    Below,
    Effort,
    Finding,
    Found,
    Incompatibility,
    Kind,
    NotJudged,
    Place,
    Steps,
    TooMuch,
    written_out,
)
from schemas.matching import (
    PRIMITIVES,
    PROMOTED_FROM,
    Lookups,
    branches,
    enum_default,
    fields,
    full_name,
    names_agree,
    part,
    types_differ,
    union_lacks,
)

__all__ = ["Incompatibility", "Kind", "incompatibilities", "judge"]

_PART: Final = {"array": "items", "map": "values"}

_Question: TypeAlias = tuple[Schema, Schema, Place]
_Judging: TypeAlias = Generator[_Question, Found, Found]
_Pair: TypeAlias = tuple[int, int]


def incompatibilities(reader: Schema, writer: Schema) -> list[Incompatibility]:
    """Why data written with `writer` cannot be read with `reader`; nothing if all of it can be."""
    return written_out(judge(reader, writer, Effort()))


def judge(reader: Schema, writer: Schema, effort: Effort) -> Found:
    """The same, as it was found: with the schemas that do not fit, and what stands behind each."""
    question = reader, writer, ROOT
    try:
        check = _Check(effort)
        found = check.run(question)
        if not found and check.assumed_too_much:
            return _Check(effort, forgetful=True).run(question)
        return found
    except NotJudged as reason:
        return [reason.finding]
    except TooMuch:
        text = "the two schemas are too large, or too entangled, to be compared"
        return [Finding(Kind.NOT_JUDGED, ROOT, (), text, reader, writer)]


class _Check:
    """One question, and the verdicts on the pairs that it led to."""

    def __init__(self, effort: Effort, *, forgetful: bool = False) -> None:
        self.assumed_too_much = False
        self._forgetful = forgetful
        self._effort = effort
        self._lookups = Lookups(effort)
        # By identity: whoever asked holds the schemas. None: being judged.
        self._verdicts: dict[_Pair, Found | None] = {}
        self._assumed: set[_Pair] = set()
        self._settled: list[_Pair] = []

    def run(self, question: _Question) -> Found:
        """A pair that leads to others is judged by a generator that asks for them, and waits."""
        waiting: list[tuple[_Pair, int, _Judging]] = []
        while True:
            reader, writer, place = question
            pair = id(reader), id(writer)
            verdict = self._verdict(pair, reader, writer, place)
            if verdict is None:
                self._verdicts[pair] = None
                judging = self._judging(reader, writer, place)
                waiting.append((pair, len(self._settled), judging))
            while waiting:
                pair, settled_before, judging = waiting[-1]
                try:
                    question = next(judging) if verdict is None else judging.send(verdict)
                    break
                except StopIteration as done:
                    verdict = done.value
                    waiting.pop()
                    self._settle(pair, settled_before, verdict)
            else:
                assert verdict is not None
                return verdict

    def _verdict(self, pair: _Pair, reader: Schema, writer: Schema, place: Place) -> Found | None:
        """The verdict if it is known or leads to no other pair; None if it has to be worked out."""
        if pair in self._verdicts:
            verdict = self._verdicts[pair]
            if verdict is None:
                self._assumed.add(pair)
                return COMPATIBLE
            return verdict
        self._effort.spend(1)
        verdict = self._at_once(reader, writer, place)
        if verdict is not None:
            self._verdicts[pair] = verdict
        return verdict

    def _settle(self, pair: _Pair, settled_before: int, verdict: Found) -> None:
        self._verdicts[pair] = verdict
        if verdict and pair in self._assumed:
            self.assumed_too_much = True
            if self._forgetful:
                # What was found compatible since may rest on it. What was found incompatible was so
                # although too much was assumed.
                for other in self._settled[settled_before:]:
                    if not self._verdicts.get(other, True):
                        del self._verdicts[other]
                del self._settled[settled_before:]
        self._settled.append(pair)

    def _at_once(self, reader: Schema, writer: Schema, place: Place) -> Found | None:
        to_read, written = reader.type, writer.type
        if to_read == written:
            if to_read in PRIMITIVES:
                return COMPATIBLE
            if to_read == "enum":
                return [*_names(reader, writer, place), *self._enum(reader, writer, place)]
            if to_read == "fixed":
                return [*_names(reader, writer, place), *_fixed(reader, writer, place)]
            return None
        if "union" in {to_read, written}:
            return None
        if to_read in PROMOTED_FROM and written in PROMOTED_FROM[to_read]:
            return COMPATIBLE
        text = types_differ(to_read, written)
        return [Finding(Kind.TYPE_MISMATCH, place, (), text, reader, writer)]

    def _judging(self, reader: Schema, writer: Schema, place: Place) -> _Judging:
        if reader.type == writer.type == "union":
            return self._unions(reader, writer, place)
        if writer.type == "union":
            return self._all_branches(reader, writer, place)
        if reader.type == "union":
            return self._any_branch(reader, writer, place)
        if reader.type in _PART:
            return self._parts(_PART[reader.type], reader, writer, place)
        return self._records(reader, writer, place)

    def _parts(self, name: str, reader: Schema, writer: Schema, place: Place) -> _Judging:
        verdict = yield part(reader, name), part(writer, name), (place, (name,))
        return [Below(reader, "", (name,), verdict)] if verdict else COMPATIBLE

    def _unions(self, reader: Schema, writer: Schema, place: Place) -> _Judging:
        found: list[Finding | Below] = []
        for index, branch in enumerate(branches(writer)):
            verdict = yield reader, branch, ROOT
            if verdict:
                found.append(_lacking(reader, branch, place, (str(index),), verdict))
        return found

    def _all_branches(self, reader: Schema, writer: Schema, place: Place) -> _Judging:
        found: list[Finding | Below] = []
        for index, branch in enumerate(branches(writer)):
            steps = (str(index),)
            verdict = yield reader, branch, (place, steps)
            if verdict:
                found.append(Below(reader, "", steps, verdict))
        return found

    def _any_branch(self, reader: Schema, writer: Schema, place: Place) -> _Judging:
        meant = COMPATIBLE
        for branch in self._lookups.candidates(reader, writer):
            verdict = yield branch, writer, ROOT
            if not verdict:
                return COMPATIBLE
            if branch.type == writer.type and (
                branch.type in _PART or (not meant and names_agree(branch, writer))
            ):
                meant = verdict
        return [_lacking(reader, writer, place, (), meant)]

    def _records(self, reader: Schema, writer: Schema, place: Place) -> _Judging:
        found: list[Finding | Below] = [*_names(reader, writer, place)]
        for index, field in enumerate(fields(reader)):
            steps = _type_of_field(index)
            source = self._lookups.source(reader, index, writer, place)
            to_read = part(field, "type")
            if source is not None:
                verdict = yield to_read, part(source, "type"), (place, steps)
                if verdict:
                    found.append(Below(reader, field.name, steps, verdict))
            elif field.has_default:
                continue
            elif to_read.type == "enum" and enum_default(to_read) is not None:
                # Java's: it would have the enum's default fill in, but compares enum and record.
                verdict = yield to_read, writer, (place, steps)
                found.append(Below(reader, field.name, steps, verdict, True))
            else:
                kind = Kind.READER_FIELD_MISSING_DEFAULT_VALUE
                names = (field.name,)
                found.append(Finding(kind, place, steps[:-1], field.name, reader, writer, names))
        return found

    def _enum(self, reader: Schema, writer: Schema, place: Place) -> list[Finding]:
        missing = self._lookups.missing_symbols(reader, writer)
        if not missing:
            return []
        kind, text = Kind.MISSING_ENUM_SYMBOLS, f"[{', '.join(missing)}]"
        return [Finding(kind, place, ("symbols",), text, reader, writer, missing)]


@lru_cache(1_000)
def _type_of_field(index: int) -> Steps:
    return "fields", str(index), "type"


def _fixed(reader: Schema, writer: Schema, place: Place) -> list[Finding]:
    size, written = reader.props["size"], writer.props["size"]
    if size == written:
        return []
    text = f"expected: {written}, found: {size}"
    return [Finding(Kind.FIXED_SIZE_MISMATCH, place, ("size",), text, reader, writer)]


def _names(reader: Schema, writer: Schema, place: Place) -> list[Finding]:
    if names_agree(reader, writer):
        return []
    text = f"expected: {full_name(writer)}"
    return [Finding(Kind.NAME_MISMATCH, place, ("name",), text, reader, writer)]


def _lacking(reader: Schema, writer: Schema, place: Place, steps: Steps, because: Found) -> Finding:
    text = union_lacks(writer.type)
    return Finding(Kind.MISSING_UNION_BRANCH, place, steps, text, reader, writer, (), because)
