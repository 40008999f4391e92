"""The verdict, held against the truth, line by line. Pure.

A line is *lost* if it was written and is in no landed row, *double* if it is in two. Then:

- Rule `hole`: each lost line lies in a range that is called missing, lost or unknown; or the
  window in which it was written is still pending. It is a `brief hole` where no agent could have
  read the line: what it stood in was gone within a second, before an agent that looked.
- Rule `double`: each double line lies in a range that is called duplicated.
- Rule `not lost`: a range that is called missing or lost holds lost lines only.
- Rule `count`: it is about as many events as lines are lost there.
- Rule `not double`: a range that is called duplicated holds double lines only.
- Rule `unexplained`: nothing else is red. What is called unknown lies in a time in which the agent
  was dead or frozen, and names changed there; what is called changed was spoilt.
- Rule `rows`: a row is a line that was written, at the byte where it was.
- Rule `green`: exit code 0 never comes with a lost or a double line.
- Rule `exit`: exit code 0 and the state complete come together, and 1 only where something is
  called wrong.
- Rule `sums`: what is shown in several places is the same.
- Rule `stuck`: all has come to rest, loads came through, and the verdict still waits.

`hole`, `double`, `green` and `rows` broken are a false green, or, where the verdict was red for
another reason, not exact; `count`, `sums` and `exit` are not exact; the others are a false red.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from tests.witness.reading import Record, Row
from tests.witness.truth import NEVER, File, Line, Truth
from tests.witness.verdict import Called, Seen, Verdict

GREEN: Final = "false green"
RED: Final = "false red"
INEXACT: Final = "not exact"
KIND_OF_RULE: Final = {
    "hole": GREEN,
    "brief hole": GREEN,
    "green": GREEN,
    "double": GREEN,
    "rows": GREEN,
    "not lost": RED,
    "not double": RED,
    "unexplained": RED,
    "stuck": RED,
    "count": INEXACT,
    "sums": INEXACT,
    "exit": INEXACT,
}
CALLED_LOST: Final = {"missing", "lost"}
VAGUE: Final = {"unknown", "unproven", "unnamed"}  # nobody knows which lines; when, and where
# How much longer than it really was an agent may think it was blind: its last look was before its
# death, and after its start it must look.
SLACK: Final = 15_000
# Of times that the agent takes for a line's, which is when it read it.
BRIEF: Final = 100
# Of a smaller file that is gone nobody can say that another one is its copy.
KNOWN_COPY: Final = 1024
SECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class Objection:
    """One rule that a verdict broke."""

    rule: str
    words: str
    lines: tuple[Line, ...] = ()
    beside_red: bool = False  # the verdict was not green, but did not say this

    @property
    def kind(self) -> str:
        kind = KIND_OF_RULE[self.rule]
        return INEXACT if kind == GREEN and self.beside_red else kind

    def __str__(self) -> str:
        shown = "; ".join(str(each) for each in self.lines[:3])
        more = f" and {len(self.lines) - 3} more" if len(self.lines) > 3 else ""
        return f"{self.kind} [{self.rule}] {self.words}{': ' if shown else ''}{shown}{more}"


def judge(truth: Truth, seen: Seen, verdict: Verdict) -> list[Objection]:
    return _Judge(truth, seen, verdict).objections()


class _Judge:
    def __init__(self, truth: Truth, seen: Seen, verdict: Verdict) -> None:
        self._truth = truth
        self._seen = seen
        self._verdict = verdict
        self._lines = {line.text: line for line in truth.lines()}
        count = Counter(row.text for row in seen.rows)
        self._lost = {text for text in self._lines if not count[text]}
        self._double = {text for text in self._lines if count[text] > 1}
        self._file_of: dict[str, set[int]] = {}  # files that a source was seen to be
        self._by_seq: dict[tuple[str, int], Line] = {}
        self._foreign_lost: set[int] = set()  # offsets of others' events that never landed
        self._by_offset: dict[int, list[Line]] = {}
        everything: list[Record | Row] = [*seen.records, *seen.rows]
        for each in everything:
            line = self._lines.get(each.text)
            if line is None and not count[each.text]:
                self._foreign_lost.add(each.offset)
            if line is not None:
                self._file_of.setdefault(each.source, set()).add(id(line.file))
                self._by_seq[each.source, each.seq] = line
                known = self._by_offset.setdefault(each.offset, [])
                if all(line is not each for each in known):
                    known.append(line)
        self._called = [each for each in verdict.findings if not each.accepted]
        self._guess_sources()

    def _guess_sources(self) -> None:
        """Files of which no line was ever seen have no known source. A finding that names one is
        taken to be about the file, of those that had this path, that fits it best."""
        known = set().union(*self._file_of.values())
        for called in sorted(self._called, key=lambda each: (each.path, each.end_position)):
            if not called.source or called.source in self._file_of or not called.path:
                continue
            fitting = [
                file
                for file in self._truth.files
                if called.path in file.names and id(file) not in known and file.lines
            ]
            if fitting:
                best = min(fitting, key=lambda each: self._misfit(called, each))
                self._file_of[called.source] = {id(best)}
                known.add(id(best))

    def _misfit(self, called: Called, file: File) -> tuple[bool, int, int]:
        """The smaller the better."""
        named = [line for line in file.lines if line.start < called.end_position]
        time = min((abs(each.written - called.from_time) for each in named), default=NEVER)
        landed = sum(line.text not in self._lost for line in named)
        return called.end_position > file.size, landed, time

    def objections(self) -> list[Objection]:
        return [
            *self._rows(),
            *self._holes(),
            *self._doubles(),
            *(each for called in self._called for each in self._explained(called)),
            *self._state(),
            *self._sums(),
        ]

    # What landed

    def _rows(self) -> Iterable[Objection]:
        for row in self._seen.rows:
            line = self._lines.get(row.text)
            if line is None:
                if row.text not in self._truth.foreign:
                    yield Objection("rows", f"a row that nobody wrote: {row.text[:80]!r}")
            elif row.position != line.start:
                words = f"a row says byte {row.position} of a line"
                yield Objection("rows", words, (line,))

    # Red where it must be

    def _holes(self) -> Iterable[Objection]:
        lost = [self._lines[text] for text in self._lost]
        lost = [each for each in lost if self._truth.must_arrive(each)]
        for called in self._called:
            lost = self._beside(called, lost)
        waits = [cell for cell in self._verdict.cells if cell.state == "pending"]
        if self._verdict.state == "pending":
            lost = []
        lost = [
            line
            for line in lost
            if not any(each.start <= line.written < each.start + each.length for each in waits)
        ]
        lost.sort(key=lambda each: (each.written, each.start))
        brief = [each for each in lost if self._was_brief(each)]
        long = [each for each in lost if not self._was_brief(each)]
        for rule, lines in (("brief hole", brief), ("hole", long)):
            if lines:
                words = f"{len(lines)} lines are in no row, and nothing is said of them"
                yield Objection(rule, words, tuple(lines), self._is_red)

    def _was_brief(self, line: Line) -> bool:
        gone = min(line.file.ended, line.file.copied)
        return gone - line.written < SECOND and self._truth.watched(gone)

    def _doubles(self) -> Iterable[Objection]:
        double = [self._lines[text] for text in self._double]
        for called in self._called:
            if called.kind in {"duplicated", "changed"}:
                double = self._beside(called, double)
        if double and self._verdict.state != "pending":
            words = f"{len(double)} lines are in two rows, and nothing is said of them"
            yield Objection("double", words, tuple(double), self._is_red)

    @property
    def _is_red(self) -> bool:
        return self._verdict.exit_code != 0

    def _beside(self, called: Called, lines: list[Line]) -> list[Line]:
        """Those that a finding is not about, and cannot be."""
        named = {id(line) for line in self._named(called)}
        return [each for each in lines if id(each) not in named and not self._within(called, each)]

    def _within(self, called: Called, line: Line) -> bool:
        """Whether it is in the time and place of a finding that has no better name."""
        if called.kind not in VAGUE or (called.host and called.host != self._truth.host):
            return False
        slack = BRIEF + int(self._truth.clock * 1000)
        if called.from_time >= 0 and line.written < called.from_time - slack:
            return False
        if called.to_time >= 0 and line.written > called.to_time + slack:
            return False
        if called.source:
            return self._is_source(called, line.file) and line.end > max(called.position, 0)
        if called.path:
            folders = {str(PurePath(name).parent) for name in line.file.names}
            return called.path in folders or called.path in line.file.names
        return True

    def _is_source(self, called: Called, file: File) -> bool:
        known = self._file_of.get(called.source)
        return id(file) in known if known else not called.path or called.path in file.names

    def _named(self, called: Called) -> list[Line]:
        """The lines that a finding names, by its most exact name."""
        if called.tier == "hdfs" and called.path in self._truth.landed:
            return [self._lines[t] for t in self._truth.landed[called.path] if t in self._lines]
        if called.source and called.seq >= 0 and called.events > 0:
            numbers = range(called.seq, called.seq + called.events)
            found = [self._by_seq.get((called.source, number)) for number in numbers]
            if all(found):
                return [each for each in found if each is not None]
        if called.position >= 0 and called.end_position >= 0:
            return [
                line
                for file in self._truth.files
                if self._is_source(called, file)
                for line in file.lines
                if line.start < called.end_position and line.end > called.position
            ]
        if called.offset >= 0 and called.offsets > 0:
            offsets = range(called.offset, called.offset + called.offsets)
            return [line for each in offsets for line in self._at_offset(each)]
        return []

    def _at_offset(self, offset: int) -> list[Line]:
        """An offset may have been given twice, where a log was cut: one that is lost goes first."""
        there = self._by_offset.get(offset, [])
        lost = [each for each in there if each.text in self._lost]
        return lost or there

    # Nothing red where nothing is

    def _explained(self, called: Called) -> Iterable[Objection]:
        if called.kind in CALLED_LOST:
            yield from self._called_lost(called)
        elif called.kind == "duplicated":
            yield from self._called_double(called)
        elif called.kind == "changed":
            if not self._truth.done & {"flip-segment", "flip-landed", "cut-tail", "copy-landed"}:
                yield Objection("unexplained", called.words)
        elif called.kind == "unnamed":
            about = [line for line in self._truth.lines() if self._within(called, line)]
            wrong = sum(line.text in self._lost or line.text in self._double for line in about)
            if not wrong:
                yield Objection("unexplained", called.words)
            elif called.events >= 0 and called.events != wrong:
                yield Objection(
                    "count", f"{wrong} lines there are wrong, and not so many: {called.words}"
                )
        elif called.kind == "unproven":
            if not self._truth.done & {"wipe-agent", "tear-journal", "flip-journal"}:
                yield Objection("unexplained", called.words)
        elif called.kind == "unknown":
            yield from self._called_unknown(called)
        else:
            yield Objection("unexplained", f"a finding of the kind {called.kind}: {called.words}")

    def _called_lost(self, called: Called) -> Iterable[Objection]:
        named = self._named(called)
        lost = [line for line in named if line.text in self._lost]
        others = 0
        if called.offset >= 0 and called.offsets > 0:
            others = len(
                self._foreign_lost & set(range(called.offset, called.offset + called.offsets))
            )
        rough = "within bytes" in called.words
        if not lost and not others:
            words = "nothing that it names is lost" if named else "it names no line"
            yield Objection("not lost", f"{words}: {called.words}", tuple(named))
            return
        there = [line for line in named if line.text not in self._lost]
        if there and not rough:
            words = f"{len(there)} of {len(named)} lines have landed: {called.words}"
            yield Objection("not lost", words, tuple(there))
            return
        most, least = len(lost) + others, 0 if rough else len(lost)
        if called.events > 0 and not least <= called.events <= most:
            yield Objection("count", f"{len(lost)} lines are lost there: {called.words}")

    def _called_double(self, called: Called) -> Iterable[Objection]:
        named = self._named(called)
        wrong = [line for line in named if line.text not in self._double]
        if not named and not (called.path and called.tier == "hdfs" and self._truth.landed):
            yield Objection("not double", f"it names no line: {called.words}")
        elif wrong:
            words = f"{len(wrong)} of {len(named)} lines are there once: {called.words}"
            yield Objection("not double", words, tuple(wrong))

    def _called_unknown(self, called: Called) -> Iterable[Objection]:
        slack = SLACK + int(self._truth.clock * 1000)
        torn = self._truth.done & {"wipe-agent", "tear-journal", "flip-journal"}
        blind = [
            each
            for each in self._truth.blind
            if called.from_time < each.until + slack and called.to_time > each.since - slack
        ]
        if called.source and any(
            called.from_time - slack <= each.ended <= called.to_time + slack
            for each in self._truth.files
            if self._is_source(called, each)
        ):
            return
        if not blind and not torn:
            yield Objection("unexplained", f"the agent was not away then: {called.words}")
            return
        since = min((each.since for each in blind), default=0)
        until = max((each.until for each in blind), default=NEVER)
        if not torn and (called.from_time < since - slack or called.to_time > until + slack):
            away = f"the agent was away from {since} to {until} only"
            yield Objection("unexplained", f"{away}: {called.words}")
        if called.source:
            files = [each for each in self._truth.files if self._is_source(called, each)]
            if files and all(_can_be_found(each) for each in files):
                yield Objection("unexplained", f"that file is still there: {called.words}")
        elif not torn and not any(
            since - slack <= each.time <= until + slack
            and (not called.path or called.path in {each.folder, str(PurePath(each.folder).parent)})
            for each in self._truth.changes
        ):
            yield Objection("unexplained", f"nothing came or went there: {called.words}")

    # The whole

    def _state(self) -> Iterable[Objection]:
        verdict = self._verdict
        lost = sum(self._truth.must_arrive(self._lines[text]) for text in self._lost)
        wrong = bool(lost or self._double)
        if verdict.exit_code == 4 or not verdict.state:
            yield Objection("stuck", f"there is no verdict: {verdict.stderr[:200]}")
            return
        if (verdict.exit_code == 0) != (verdict.state == "complete"):
            yield Objection("exit", f"exit code {verdict.exit_code}, state {verdict.state}")
        if verdict.exit_code == 0 and wrong:
            said = f"exit code 0; {lost} lines lost, {len(self._double)} double"
            yield Objection("green", said)
        bad = {each.kind for each in self._called}
        if verdict.exit_code == 1 and not bad:
            yield Objection("exit", f"exit code 1, state {verdict.state}, and no finding")
        if verdict.state == "complete" and bad:
            yield Objection("exit", f"complete, with findings: {', '.join(sorted(bad))}")
        if verdict.state == "pending" and not self._truth.unloaded:
            waits = "; ".join(verdict.waits[:3])
            yield Objection("stuck", f"it still waits: {waits}")

    def _sums(self) -> Iterable[Objection]:
        verdict = self._verdict
        flow = verdict.flow
        if flow and flow.get("lost", 0) >= 0:
            parts = sum(flow.get(name, 0) for name in ("shipped", "filtered", "dead", "lost"))
            if flow.get("read", 0) != parts:
                yield Objection("sums", f"read {flow.get('read')}, and its parts are {parts}")
        missing = [each for each in self._called if each.kind in {"missing", "unnamed"}]
        if all(each.events >= 0 for each in missing):
            named = sum(each.events for each in missing)
            if named != verdict.missing and not any("too" in each.words for each in missing):
                yield Objection("sums", f"missing {verdict.missing}, findings add up to {named}")
            of_hosts = sum(each.events for each in missing if each.host)
            if of_hosts != verdict.hosts_missing:
                said = f"findings name {of_hosts} of hosts, the hosts miss {verdict.hosts_missing}"
                yield Objection("sums", said)
        if not self._truth.landed and verdict.landed_events not in {-1, len(self._seen.rows)}:
            said = f"{verdict.landed_events} events at hdfs, and {len(self._seen.rows)} rows"
            yield Objection("sums", said)
        if (
            verdict.state in {"missing", "unknown"}
            and verdict.host_states
            and (
                set(verdict.host_states) == {"complete"} and any(each.host for each in self._called)
            )
        ):
            yield Objection("sums", f"{verdict.state}, and each host of it is complete")


def _can_be_found(file: File) -> bool:
    """Whether it is there; a copy of a file that is gone is known by what it begins with."""
    is_copy = file.original_gone != NEVER
    return file.ended == NEVER and not (is_copy and file.size < KNOWN_COPY)
