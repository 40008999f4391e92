"""Finds why a reader's schema cannot read data written with another schema.

The verdicts, their order and their places are those of Java's `SchemaCompatibility`, which
Confluent's registry uses and users' tools know. Rules:

1. Pairs of types are judged, each pair of objects once. A pair that is met again while it is being
judged (types may contain themselves) counts as compatible until proven otherwise. 2. In Java,
verdicts that rely on such an assumption are kept, and may accept unreadable data. If the answer
would be "compatible" and an assumption has failed, we check again, and discard verdicts that rely
on failed assumptions. 3. As in Java, logical types are ignored, a record is compared completely
even if its name differs, and all findings inside a union's branch count as one: the branch is
missing. A pair that is met a second time is reported at its first place, and inside unions paths
begin at the branch. Findings with a primitive type are reported in each place. 4. Nothing is
recursive, and the work per comparison is limited: schemas come from the network, and may be as
deep, wide and entangled as ten megabytes allow.
"""

from collections.abc import Generator
from functools import lru_cache
from typing import TypeAlias

from schemas.definitions.types import (
    Array,
    Definition,
    Enum,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)
from schemas.evolution.findings import (
    COMPATIBLE,
    ROOT,
    Below,
    Effort,
    Found,
    FoundBelow,
    Incompatibility,
    IncompatibilityKind,
    NotJudged,
    Place,
    Steps,
    TooMuch,
    written_out,
)
from schemas.evolution.matching import Lookups, names_agree, promoted

__all__ = ["Incompatibility", "IncompatibilityKind", "incompatibilities", "judge"]

_Question: TypeAlias = tuple[Type, Type, Place]
_Judging: TypeAlias = Generator[_Question, Found, Found]
_Pair: TypeAlias = tuple[int, int]


def incompatibilities(reader: Type, writer: Type) -> list[Incompatibility]:
    """Returns the reasons why `reader` cannot read data written with `writer`; none if it can."""
    return written_out(judge(reader, writer, Effort()))


def judge(reader: Type, writer: Type, effort: Effort) -> Found:
    """Returns the findings as a tree, with the types and the causes."""
    question = reader, writer, ROOT
    try:
        check = _Check(effort)
        findings = check.run(question)
        if not findings and check.assumed_too_much:
            return _Check(effort, forgetful=True).run(question)
        return findings
    except NotJudged as reason:
        return [reason.finding]
    except TooMuch:
        text = "the two schemas are too large, or too entangled, to be compared"
        return [FoundBelow(IncompatibilityKind.NOT_JUDGED, ROOT, (), text, reader, writer)]


def _pair(reader: Type, writer: Type) -> _Pair | None:
    """None if one type is primitive: primitive types are shared objects."""
    if isinstance(reader, Primitive) or isinstance(writer, Primitive):
        return None
    return id(reader), id(writer)


class _Check:
    """One comparison, with the verdicts on the pairs of types that it has reached."""

    def __init__(self, effort: Effort, *, forgetful: bool = False) -> None:
        self.assumed_too_much = False
        self._forgetful = forgetful
        self._effort = effort
        self._lookups = Lookups(effort)
        # By identity: the caller holds the schemas. None: being judged.
        self._verdicts: dict[_Pair, Found | None] = {}
        self._assumed: set[_Pair] = set()
        self._settled: list[_Pair] = []

    def run(self, question: _Question) -> Found:
        """Judges a pair. A pair that depends on others is judged by a generator, which yields
        them."""
        pending_pairs: list[tuple[_Pair | None, int, _Judging]] = []
        while True:
            reader, writer, place = question
            pair = _pair(reader, writer)
            verdict = self._verdict(pair, reader, writer, place)
            if verdict is None:
                if pair:
                    self._verdicts[pair] = None
                generator = self._judging(reader, writer, place)
                pending_pairs.append((pair, len(self._settled), generator))
            while pending_pairs:
                pair, settled_count, generator = pending_pairs[-1]
                try:
                    question = next(generator) if verdict is None else generator.send(verdict)
                    break
                except StopIteration as done:
                    verdict = done.value
                    pending_pairs.pop()
                    self._settle(pair, settled_count, verdict)
            else:
                assert verdict is not None
                return verdict

    def _verdict(
        self, pair: _Pair | None, reader: Type, writer: Type, place: Place
    ) -> Found | None:
        """The verdict if it is known or needs no other pair; None if it must be worked out."""
        if pair in self._verdicts:
            verdict = self._verdicts[pair]
            if verdict is None:
                self._assumed.add(pair)
                return COMPATIBLE
            return verdict
        self._effort.spend(1)
        verdict = self._at_once(reader, writer, place)
        if pair and verdict is not None:
            self._verdicts[pair] = verdict
        return verdict

    def _settle(self, pair: _Pair | None, settled_before: int, verdict: Found) -> None:
        if not pair:
            return
        self._verdicts[pair] = verdict
        if verdict and pair in self._assumed:
            self.assumed_too_much = True
            if self._forgetful:
                # Later "compatible" verdicts may rely on the assumption. "Incompatible" ones hold
                # regardless.
                for other_pair in self._settled[settled_before:]:
                    if not self._verdicts.get(other_pair, True):
                        del self._verdicts[other_pair]
                del self._settled[settled_before:]
        self._settled.append(pair)

    def _at_once(self, reader: Type, writer: Type, place: Place) -> Found | None:
        match reader, writer:
            case Primitive(), Primitive() if promoted(reader, writer):
                return COMPATIBLE
            case Enum(), Enum():
                return [*_names(reader, writer, place), *self._enum(reader, writer, place)]
            case Fixed(), Fixed():
                return [*_names(reader, writer, place), *_fixed(reader, writer, place)]
            case (Union(), _) | (_, Union()) | (Record(), Record()):
                return None
            case (Array(), Array()) | (Map(), Map()):
                return None
        kinds = reader.kind.upper(), writer.kind.upper()
        text = "reader type: {} not compatible with writer type: {}".format(*kinds)
        return [FoundBelow(IncompatibilityKind.TYPE_MISMATCH, place, (), text, reader, writer)]

    def _judging(self, reader: Type, writer: Type, place: Place) -> _Judging:
        match reader, writer:
            case Union(), Union():
                return self._unions(reader, writer, place)
            case _, Union():
                return self._all_branches(reader, writer, place)
            case Union(), _:
                return self._any_branch(reader, writer, place)
            case Array(), Array():
                return self._parts(reader, (reader.items, writer.items), place, "items")
            case Map(), Map():
                return self._parts(reader, (reader.values, writer.values), place, "values")
            case Record(), Record():
                return self._records(reader, writer, place)
        raise AssertionError(reader.kind, writer.kind)

    def _parts(self, of: Type, parts: tuple[Type, Type], place: Place, name: str) -> _Judging:
        steps = (name,)
        verdict = yield *parts, (place, steps)
        return [Below(of, "", steps, verdict)] if verdict else COMPATIBLE

    def _unions(self, reader: Union, writer: Union, place: Place) -> _Judging:
        findings: list[FoundBelow | Below] = []
        for index, branch in enumerate(writer.branches):
            verdict = yield reader, branch, ROOT
            if verdict:
                findings.append(_lacking(reader, branch, place, (str(index),), verdict))
        return findings

    def _all_branches(self, reader: Type, writer: Union, place: Place) -> _Judging:
        findings: list[FoundBelow | Below] = []
        for index, branch in enumerate(writer.branches):
            steps = (str(index),)
            verdict = yield reader, branch, (place, steps)
            if verdict:
                findings.append(Below(reader, "", steps, verdict))
        return findings

    def _any_branch(self, reader: Union, writer: Type, place: Place) -> _Judging:
        intended_findings = COMPATIBLE
        for branch in self._lookups.candidates(reader, writer):
            verdict = yield branch, writer, ROOT
            if not verdict:
                return COMPATIBLE
            if not intended_findings and _is_meant(branch, writer):
                intended_findings = verdict
        return [_lacking(reader, writer, place, (), intended_findings)]

    def _records(self, reader: Record, writer: Record, place: Place) -> _Judging:
        findings: list[FoundBelow | Below] = [*_names(reader, writer, place)]
        writer_fields = self._lookups.fields_by_name(writer)
        self._effort.spend(len(reader.fields))
        for index, field in enumerate(reader.fields):
            if field.aliases:
                source = self._lookups.source(reader, index, writer, place)
            else:
                source = writer_fields.get(field.name)
            if source is not None and self._lookups.read_at_sight(field.type, source.type):
                continue
            steps = _type_of_field(index)
            if source is not None:
                verdict = yield field.type, source.type, (place, steps)
                if verdict:
                    findings.append(Below(reader, field.name, steps, verdict))
            elif field.has_default:
                continue
            elif isinstance(field.type, Enum) and field.type.default is not None:
                # As in Java, which should apply the default but compares enum and record.
                verdict = yield field.type, writer, (place, steps)
                findings.append(Below(reader, field.name, steps, verdict, True))
            else:
                kind = IncompatibilityKind.READER_FIELD_MISSING_DEFAULT_VALUE
                names = (field.name,)
                findings.append(
                    FoundBelow(kind, place, steps[:-1], field.name, reader, writer, names)
                )
        return findings

    def _enum(self, reader: Enum, writer: Enum, place: Place) -> list[FoundBelow]:
        missing_symbols = self._lookups.missing_symbols(reader, writer)
        if not missing_symbols:
            return []
        kind, text = IncompatibilityKind.MISSING_ENUM_SYMBOLS, f"[{', '.join(missing_symbols)}]"
        return [FoundBelow(kind, place, ("symbols",), text, reader, writer, missing_symbols)]


@lru_cache(1_000)
def _type_of_field(index: int) -> Steps:
    return "fields", str(index), "type"


def _fixed(reader: Fixed, writer: Fixed, place: Place) -> list[FoundBelow]:
    if reader.size == writer.size:
        return []
    text = f"expected: {writer.size}, found: {reader.size}"
    sizes = str(reader.size), str(writer.size)
    return [
        FoundBelow(
            IncompatibilityKind.FIXED_SIZE_MISMATCH, place, ("size",), text, reader, writer, sizes
        )
    ]


def _names(reader: Definition, writer: Definition, place: Place) -> list[FoundBelow]:
    if names_agree(reader, writer):
        return []
    text = f"expected: {writer.name.full}"
    return [FoundBelow(IncompatibilityKind.NAME_MISMATCH, place, ("name",), text, reader, writer)]


def _is_meant(branch: Type, writer: Type) -> bool:
    """Whether people will look for the fault in this branch."""
    if isinstance(branch, Named) and isinstance(writer, Named):
        return branch.kind == writer.kind and names_agree(branch, writer)
    return branch.kind == writer.kind


def _lacking(reader: Type, writer: Type, place: Place, steps: Steps, because: Found) -> FoundBelow:
    text = f"reader union lacking writer type: {writer.kind.upper()}"
    return FoundBelow(
        IncompatibilityKind.MISSING_UNION_BRANCH, place, steps, text, reader, writer, (), because
    )
