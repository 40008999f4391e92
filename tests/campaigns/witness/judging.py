"""The verdict, held against the truth, line by line. Pure.

A line is *lost* if it was written and is in no landed row, *double* if it is in two. A record of
another producer is lost if it was acknowledged and became nothing: no row and no dead letter of its
offset has it, and no load that came through dropped it as the duplicate of a row. It is double if
two rows of its offset have it. Then:

- Rule `hole`: each lost line or record lies in a range that is called missing, lost or unknown; or
  the window in which it was written still waits. It is a `brief hole` where no agent could
  have read the line: what it stood in was gone within a second, before an agent that looked, or
  was emptied in place before anything of it was read. Of such lines the verdict may say, without
  being red, that nobody looked for a moment and a file was begun in it.
- Rule `double`: each double line or record lies in a range that is called duplicated; or one of
  its rows in one of which it is said that nobody knows.
- Rule `not lost`: a range that is called missing or lost holds lost lines only; where it is known
  by offsets alone, each of these had a record that is lost.
- Rule `count`: it is about as many events as lines, or records, are lost there.
- Rule `not double`: a range that is called duplicated holds double lines only, or records.
- Rule `unexplained`: nothing else is red. What is called unknown lies in a time in which the agent
  was dead or frozen, and names changed there, or a file was gone or cut before it could be looked
  at, or is there as a copy only, and nothing of it was read before; or it is rows, and an agent
  has forgotten all; or lay in a log that lost more than anybody could count. What is called
  changed was spoilt.
- Rule `rows`: a row is a line that was written, at the byte where it was, or what another producer
  has sent, at an offset where it was. A line is two if its beginning was, and had stood alone for
  long enough to be taken for a whole one.
- Rule `green`: exit code 0 never comes with a lost or a double line, but for such moments.
- Rule `exit`: exit code 0 and the state complete come together, and 1 only where something is
  called wrong.
- Rule `sums`: what is shown in several places is the same.
- Rule `stuck`: all has come to rest, loads came through, and the verdict still waits.

`hole`, `double`, `green` and `rows` broken are a false green, or, where the verdict was red for
another reason, not exact; `count`, `sums` and `exit` are not exact; the others are a false red.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from tests.campaigns.reading import Record, Row
from tests.campaigns.witness.history import Kept
from tests.campaigns.witness.rules import (
    Shipped,
    came_and_went,
    guess_files,
    is_beyond,
    is_of_an_agent,
    is_there,
    log_lost_unknown,
    needless,
    sums,
    was_brief,
)
from tests.campaigns.witness.truth import NEVER, File, Line, Truth
from tests.campaigns.witness.verdict import Called, Objection, Seen, Verdict

NOTHING_WRONG: Final = {0, 6}  # exit codes: complete, empty
CALLED_LOST: Final = {"missing", "lost"}
VAGUE: Final = {"unknown", "unproven", "unnamed"}  # nobody knows which lines; when, and where
# How much longer than it really was an agent may think it was blind: its last look was before its
# death, and after its start it must look.
SLACK: Final = 15_000
# Of times that the agent takes for a line's, which is when it read it.
BRIEF: Final = 100


def judge(truth: Truth, seen: Seen, verdict: Verdict) -> list[Objection]:
    read = {*(each.text for each in seen.rows), *(each.record.text for each in seen.records)}
    halved = truth.divide(read)
    found = _Judge(truth, seen, verdict).objections()
    if halved:
        words = f"{len(halved)} lines became two, and their beginnings had not stood long alone"
        found.append(Objection("rows", words, lines=tuple(halved)))
    return found


def false_unknowns(truth: Truth, seen: Seen, verdict: Verdict) -> list[Objection]:
    """Of a run whose agent's open files were kept; lines are divided already."""
    return list(_Judge(truth, seen, verdict).false_unknowns())


class _Judge:
    def __init__(self, truth: Truth, seen: Seen, verdict: Verdict) -> None:
        self._truth = truth
        self._seen = seen
        self._verdict = verdict
        self._lines = {line.text: line for line in truth.lines()}
        halved = [line for line in self._lines.values() if line.halved]
        self._halves = {half.text: line for line in halved for half in line.halves()}
        count = Counter(row.text for row in seen.rows)
        for line in halved:  # to another agent it was two
            count[line.text] += count[line.beginning]
        self._lost = {text for text in self._lines if not count[text]}
        self._double = {text for text in self._lines if count[text] > 1}
        rows = {(row.offset, row.text) for row in seen.rows}
        rows |= {(row.offset, row.text) for spoilt in truth.landed.values() for row in spoilt}
        before = Counter(text for _, text in rows)
        # Or were: one of the two was in a file that somebody has removed.
        self._were_double = self._double | {text for text in self._lines if before[text] > 1}
        self._read: set[int] = set()  # ids of files of which something was ever read
        self._file_of: dict[str, set[int]] = {}  # files that a source was seen to be
        self._by_seq: dict[tuple[str, int], Line] = {}
        everything: list[Record | Row] = [*(kept.record for kept in seen.records), *seen.rows]
        for one in everything:
            known = self._lines.get(one.text) or self._halves.get(one.text)
            if known is not None:
                self._file_of.setdefault(one.source, set()).add(id(known.file))
                self._read.add(id(known.file))
                self._by_seq[one.source, one.seq] = known
        self._know_records(seen)
        self._called = [
            each for each in verdict.findings if not each.accepted and not each.harmless
        ]
        self._moments = [each for each in verdict.findings if each.is_moment]
        known_files = set().union(*self._file_of.values())
        unknown = [each for each in truth.files if id(each) not in known_files]
        named = [each for each in self._called if each.source not in self._file_of]
        for source, file in guess_files(named, unknown, self._lost).items():
            self._file_of[source] = {id(file)}
        self._know_shipped_again(seen)

    def _know_records(self, seen: Seen) -> None:
        """Which of them are lost, may be, and are double; an offset may have been given twice."""
        self._at: dict[int, list[Kept]] = {}
        for kept in seen.records:
            self._at.setdefault(kept.record.offset, []).append(kept)
        spoilt = {(row.offset, row.text) for rows in self._truth.landed.values() for row in rows}
        landed = {row.text for row in seen.rows} | {text for _, text in spoilt}
        times = Counter((row.offset, row.text) for row in seen.rows)
        dead = {(each.offset, each.text) for each in seen.dead}
        self._gone: set[int] = set()  # ids of records that are lost
        self._dropped: set[int] = set()  # of such as may have been read, and dropped as duplicates
        self._again: set[int] = set()
        for kept in seen.records:
            name = kept.record.offset, kept.record.text
            if times[name] > 1:
                self._again.add(id(kept))
            elif not times[name] and name not in dead:
                dropped = kept.perhaps_loaded and name not in spoilt and kept.record.text in landed
                if dropped and not kept.loaded:
                    self._dropped.add(id(kept))
                elif not dropped:
                    self._gone.add(id(kept))

    def _know_shipped_again(self, seen: Seen) -> None:
        """Lines, by their ids, that are called duplicated, and as which sources they are called
        missing where the log has lost these: that a line was shipped twice and is there once, is
        said by both."""
        self._shipped = Shipped(seen)
        self._called_again: set[int] = set()
        self._lost_as: dict[int, set[str]] = {}
        for called in self._called:
            if called.kind == "duplicated":
                self._called_again |= {id(line) for line in self._named(called)}
            elif called.kind in CALLED_LOST and (called.source or called.offset >= 0):
                for line in self._named(called):
                    if not called.source or self._shipped.log_lost(called, line):
                        self._lost_as.setdefault(id(line), set()).add(called.source)

    def objections(self) -> list[Objection]:
        return [
            *self._rows(),
            *self._holes(),
            *self._doubles(),
            *(each for called in self._called for each in self._explained(called)),
            *self._named_again(),
            *self._state(),
            *sums(self._truth, self._seen, self._verdict, self._called),
        ]

    # What landed

    def _rows(self) -> Iterable[Objection]:
        for row in self._seen.rows:
            line = self._lines.get(row.text)
            if row.text in self._halves:
                continue
            if line is None:
                there = self._at.get(row.offset, ())
                if row.text not in self._truth.foreign:
                    yield Objection("rows", f"a row that nobody wrote: {row.text[:80]!r}")
                elif all(kept.record.text != row.text for kept in there):
                    said = (
                        f"a row says offset {row.offset}, where this never was: {row.text[:80]!r}"
                    )
                    yield Objection("rows", said)
            elif row.position != line.start:
                words = f"a row says byte {row.position} of a line"
                yield Objection("rows", words, lines=(line,))

    # Red where it must be

    def _holes(self) -> Iterable[Objection]:
        lost = [self._lines[text] for text in self._lost]
        lost = [each for each in lost if self._truth.must_arrive(each)]
        for called in self._called:
            lost = self._beside(called, lost)
        if self._verdict.state == "pending":
            lost = []
        lost = [line for line in lost if not self._waits_at(line.written)]
        lost.sort(key=lambda each: (each.written, each.start))
        lost = [each for each in lost if not self._is_said(each)]
        brief = [each for each in lost if was_brief(each, self._truth, self._read)]
        long = [each for each in lost if not was_brief(each, self._truth, self._read)]
        for rule, lines in (("brief hole", brief), ("hole", long)):
            if lines:
                words = f"{len(lines)} lines are in no row, and nothing is said of them"
                yield Objection(rule, words, lines=tuple(lines), beside_red=self._is_red)
        others = [] if self._verdict.state == "pending" else self._others_lost()
        for called in self._called:
            others = self._records_beside(called, others)
        others = [kept for kept in others if not self._waits_at(kept.record.time)]
        if others:
            words = f"{len(others)} records of others became nothing, and nothing is said of them"
            yield Objection("hole", words, lines=tuple(others), beside_red=self._is_red)

    def _waits_at(self, moment: int) -> bool:
        """Whether the window of that time still waits for something."""
        waits = [each for each in self._verdict.cells if each.state == "pending" or each.waits]
        return any(each.start <= moment < each.start + each.length for each in waits)

    def _others_lost(self) -> list[Kept]:
        return [kept for kept in self._seen.records if id(kept) in self._gone and kept.others]

    def _records_beside(self, called: Called, records: list[Kept]) -> list[Kept]:
        """Those that a finding is not about, and cannot be."""
        if not records:
            return []
        named = {id(kept) for kept in self._records_named(called)}
        return [
            kept
            for kept in records
            if id(kept) not in named and not self._record_within(called, kept)
        ]

    def _record_within(self, called: Called, kept: Kept) -> bool:
        """Whether it is in the time of a finding that names nobody, and no place."""
        if called.kind not in VAGUE or called.host or called.source or called.path:
            return False
        return called.from_time - BRIEF <= kept.record.time < called.to_time + BRIEF

    def _records_named(self, called: Called) -> list[Kept]:
        """By offsets, or by the landed file that they were in."""
        if called.tier == "hdfs" and called.path:
            were = {(row.offset, row.text) for row in self._truth.landed.get(called.path, ())}
            return [
                kept
                for kept in self._seen.records
                if (kept.record.offset, kept.record.text) in were
            ]
        if called.offset < 0:
            return []
        offsets = range(called.offset, called.offset + called.offsets)
        return [kept for each in offsets for kept in self._at.get(each, ())]

    def _is_said(self, line: Line) -> bool:
        """Whether it was gone within a moment of which the verdict says so, without being red."""
        return was_brief(line, self._truth, self._read) and any(
            self._within(called, line) for called in self._moments
        )

    def _doubles(self) -> Iterable[Objection]:
        double = [self._lines[text] for text in self._double]
        for called in self._called:
            if called.kind in {"duplicated", "changed"} or called.is_of_rows:
                double = self._beside(called, double)
        small = [each for each in double if each.file.may_be_no_copy]
        large = [each for each in double if not each.file.may_be_no_copy]
        for rule, lines in (("small copy", small), ("double", large)):
            if lines and self._verdict.state != "pending":
                words = f"{len(lines)} lines are in two rows, and nothing is said of them"
                yield Objection(rule, words, lines=tuple(lines), beside_red=self._is_red)
        others = [kept for kept in self._seen.records if id(kept) in self._again and kept.others]
        for called in self._called:
            if called.kind in {"duplicated", "changed"}:
                others = self._records_beside(called, others)
        if others and self._verdict.state != "pending":
            words = f"{len(others)} records of others are in two rows, and nothing is said of them"
            yield Objection("double", words, lines=tuple(others), beside_red=self._is_red)

    @property
    def _is_red(self) -> bool:
        return self._verdict.exit_code not in NOTHING_WRONG

    def _beside(self, called: Called, lines: list[Line]) -> list[Line]:
        """Those that a finding is not about, and cannot be."""
        named = {id(line) for line in self._named(called)}
        return [each for each in lines if id(each) not in named and not self._within(called, each)]

    def _within(self, called: Called, line: Line) -> bool:
        """Whether it is in the time and place of a finding that has no better name."""
        is_vague = called.kind in VAGUE and not called.is_of_rows
        if not is_vague or (called.host and called.host != self._truth.host):
            return False
        slack = BRIEF + int(self._truth.clock * 1000)
        read = self._truth.read_at_last(line) if called.kind == "unnamed" else line.written
        if called.from_time >= 0 and read < called.from_time - slack:
            return False
        if called.to_time >= 0 and line.written > called.to_time + slack:
            return False
        if called.partition >= 0:
            return any(is_beyond(called, kept, line.text) for kept in self._seen.records)
        if called.source:
            if self._is_source(called, line.file):
                return line.end > max(called.position, 0)
            return self._was_cut_again(called, line.file, slack)
        if called.path:
            folders = {str(PurePath(name).parent) for name in line.file.names}
            return called.path in folders or called.path in line.file.names
        return True

    def _was_cut_again(self, called: Called, file: File, slack: int) -> bool:
        """Whether it began and ended by a truncation of that very file in that time: cut twice, it
        looks as if it had been cut once."""
        cut = min(file.ended, file.copied)
        is_then = called.from_time - slack <= cut <= called.to_time + slack
        is_known = any(self._is_source(called, each) for each in file.lives() if each is not file)
        return (
            is_known
            and is_then
            and any(verb in called.words for verb in ("truncated", "overwritten"))
        )

    def _is_source(self, called: Called, file: File) -> bool:
        known = self._file_of.get(called.source)
        return id(file) in known if known else not called.path or called.path in file.names

    def _named(self, called: Called) -> list[Line]:
        """The lines that a finding names, by its most exact name."""
        if called.tier == "hdfs" and called.path in self._truth.landed:
            texts = [row.text for row in self._truth.landed[called.path]]
            return [self._lines[text] for text in texts if text in self._lines]
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
        if called.offset >= 0:
            found = [self._lines.get(kept.record.text) for kept in self._records_named(called)]
            return list({id(line): line for line in found if line is not None}.values())
        return []

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
            yield from self._called_unnamed(called)
        elif called.kind == "unproven":
            if not self._truth.done & {"wipe-agent", "tear-journal", "flip-journal"}:
                yield Objection("unexplained", called.words)
        elif called.is_of_rows:
            yield from self._called_untold(called)
        elif called.kind == "unknown" and called.partition >= 0:
            yield from log_lost_unknown(called, self._truth, self._seen)
        elif called.kind == "unknown":
            yield from self._called_unknown(called)
        else:
            yield Objection("unexplained", f"a finding of the kind {called.kind}: {called.words}")

    def _called_lost(self, called: Called) -> Iterable[Objection]:
        if called.offset >= 0 and not called.source:
            yield from self._offsets_lost(called)
            return
        named = self._named(called)
        lost = self._lost_there(called, named)
        others = self._others_of_file(called)
        gone = self._gone_there(called, others)
        rough = "within bytes" in called.words
        if not lost and not gone:
            words = "nothing that it names is lost" if named or others else "it names no line"
            yield Objection("not lost", f"{words}: {called.words}", lines=(*named, *others))
            return
        missed = {id(each) for each in (*lost, *gone)}
        both: list[Line | Kept] = [*named, *others]
        there = [each for each in both if id(each) not in missed]
        if there and not rough:
            words = f"{len(there)} of {len(named) + len(others)} have landed: {called.words}"
            yield Objection("not lost", words, lines=tuple(there))
            return
        most = len(lost) + len(gone) + self._halves_there(called, lost)
        # What has no newline is a line to some.
        least = len(lost) + len(gone) - sum(line.unfinished for line in lost)
        if called.events > 0 and not (0 if rough else least) <= called.events <= most:
            yield Objection("count", f"{most} lines are lost there: {called.words}")

    def _lost_there(self, called: Called, named: Iterable[Line]) -> list[Line]:
        """Those that are lost, or are gone from where the finding says, and are elsewhere because
        they were there twice: that is said, too, or of a small copy nobody can know it."""
        still = self._shipped.rows_in(called.path) if called.tier == "hdfs" else set[str]()
        of_file = called.path in self._truth.landed
        return [
            line
            for line in named
            if line.text in self._lost
            or (
                (id(line) in self._called_again or line.file.may_be_no_copy)
                and (line.text not in still if of_file else self._shipped.log_lost(called, line))
            )
        ]

    def _halves_there(self, called: Called, lost: Iterable[Line]) -> int:
        """Rows of a landed file that were halves of lines: they may count, although another agent
        has read such a line whole. And lost lines of which each half may have been one."""
        halves = sum(row.text in self._halves for row in self._truth.landed.get(called.path, ()))
        return halves + sum(line.stood_half for line in lost)

    def _gone_there(self, called: Called, others: Iterable[Kept]) -> list[Kept]:
        """Likewise, of others' records in a landed file."""
        still = self._shipped.rows_in(called.path)
        again = {
            id(kept)
            for each in self._called
            if each.kind == "duplicated"
            for kept in self._others_of_file(each)
        }
        return [
            kept
            for kept in others
            if id(kept) in self._gone or (id(kept) in again and kept.record.text not in still)
        ]

    def _offsets_lost(self, called: Called) -> Iterable[Objection]:
        """Of each offset a record is lost; which one, is not said."""
        named: dict[int, list[Kept]] = {}
        for kept in self._records_named(called):
            named.setdefault(kept.record.offset, []).append(kept)
        if not named:
            yield Objection("not lost", f"nothing is known to have been there: {called.words}")
            return
        there = [
            kept
            for some in named.values()
            if not any(id(kept) in self._gone or id(kept) in self._dropped for kept in some)
            for kept in some
        ]
        if there:
            words = f"{len(there)} records there became something: {called.words}"
            yield Objection("not lost", words, lines=tuple(there))
        elif 0 <= called.events != called.offsets:
            yield Objection("count", f"{called.offsets} offsets are lost there: {called.words}")

    def _named_again(self) -> Iterable[Objection]:
        """As often as an offset is called missing, something was lost there."""
        called = [each for each in self._called if each.kind in CALLED_LOST and not each.source]
        times = Counter(
            offset
            for each in called
            if each.offset >= 0
            for offset in range(each.offset, each.offset + each.offsets)
        )
        for offset, count in sorted(times.items()):
            there = self._at.get(offset, [])
            lost = sum(id(kept) in self._gone or id(kept) in self._dropped for kept in there)
            if count > max(lost, 1):
                words = f"offset {offset} is called missing {count} times"
                yield Objection("count", words, lines=tuple(there))
                return

    def _others_of_file(self, called: Called) -> list[Kept]:
        """Records of others that were rows of a landed file."""
        if called.tier != "hdfs" or not called.path:
            return []
        return [kept for kept in self._records_named(called) if kept.others]

    def _called_unnamed(self, called: Called) -> Iterable[Objection]:
        """What no other finding names is lost in that time, and it is as much."""
        lines = [self._lines[text] for text in self._lost]
        others = self._others_lost()
        for each in self._called:
            if each.kind in CALLED_LOST:
                lines = self._beside(each, lines)
                others = self._records_beside(each, others)
        wrong = sum(self._within(called, line) for line in lines)
        wrong += sum(self._record_within(called, kept) for kept in others)
        if not wrong:
            yield Objection("unexplained", called.words)
        elif called.events >= 0 and called.events != wrong:
            words = f"{wrong} lines there are lost, and not so many: {called.words}"
            yield Objection("count", words)

    def _called_double(self, called: Called) -> Iterable[Objection]:
        named = self._named(called)
        others = self._others_of_file(called)
        wrong: list[Line | Kept] = []
        if called.tier == "hdfs" and called.path:
            elsewhere = self._rows_elsewhere(called.path)
            wrong += [line for line in named if line.text not in elsewhere]
            wrong += [kept for kept in others if kept.record.text not in elsewhere]
        else:
            wrong += [line for line in named if not self._was_double(called, line)]
        if not named and not others:
            yield Objection("not double", f"it names no line: {called.words}")
        elif wrong:
            words = f"{len(wrong)} of {len(named) + len(others)} are there once: {called.words}"
            yield Objection("not double", words, lines=tuple(wrong))

    def _was_double(self, called: Called, line: Line) -> bool:
        """Or was shipped twice, and the log has lost it once, which is said, too: as another
        source, as this one while it is there as another, or once more as this one."""
        lost_as = self._lost_as.get(id(line), set())
        as_another = bool(lost_as - {called.source}) and self._shipped.was(called, line)
        as_this = called.source in lost_as and self._shipped.is_there_as_another(called, line)
        once_more = bool(lost_as) and self._shipped.was_again(called, line)
        return as_another or as_this or once_more or line.text in self._were_double

    def _rows_elsewhere(self, path: str) -> set[str]:
        """What is in other landed files, or was before these were spoilt."""
        found = self._shipped.rows_elsewhere(path)
        for other, rows in self._truth.landed.items():
            if other != path:
                found |= {row.text for row in rows}
        return found

    def _called_untold(self, called: Called) -> Iterable[Objection]:
        """They are there, and whoever shipped them has forgotten all."""
        if not self._named(called):
            yield Objection("unexplained", f"these are no rows: {called.words}")
        elif "wipe-agent" not in self._truth.done:
            yield Objection("unexplained", f"no agent has forgotten anything: {called.words}")

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
            if not any(came_and_went(each, called) for each in self._truth.files):
                yield Objection("unexplained", f"the agent was not away then: {called.words}")
            return
        since = min((each.since for each in blind), default=0)
        until = max((each.until for each in blind), default=NEVER)
        if not torn and (called.from_time < since - slack or called.to_time > until + slack):
            away = f"the agent was away from {since} to {until} only"
            yield Objection("unexplained", f"{away}: {called.words}")
        if called.source:
            files = [each for each in self._truth.files if self._is_source(called, each)]
            was_read = any(source == called.source for source, _ in self._by_seq)
            if was_read and files and all(each.can_be_found for each in files):
                yield Objection("unexplained", f"that file is still there: {called.words}")
        elif not torn and not any(
            since - slack <= each <= until + slack for each in self._truth.changed(called.path)
        ):
            yield Objection("unexplained", f"nothing came or went there: {called.words}")

    def false_unknowns(self) -> Iterable[Objection]:
        """By the rule of needless.py."""
        lost = [self._lines[text] for text in self._lost]
        for called in filter(is_of_an_agent, self._verdict.findings):
            if not any(self._within(called, line) for line in lost):
                about = self._is_source if called.source else is_there
                files = [each for each in self._truth.files if about(called, each)]
                yield from needless(called, self._truth, self._read, files)

    # The whole

    def _state(self) -> Iterable[Objection]:
        verdict = self._verdict
        lost = [self._lines[text] for text in self._lost]
        lost = [each for each in lost if self._truth.must_arrive(each) and not self._is_said(each)]
        others = len(self._others_lost())
        again = sum(kept.others for kept in self._seen.records if id(kept) in self._again)
        wrong = bool(lost or self._double or others or again)
        if verdict.exit_code == 4 or not verdict.state:
            yield Objection("stuck", f"there is no verdict: {verdict.stderr[:200]}")
            return
        if (verdict.exit_code == 0) != (verdict.state == "complete"):
            yield Objection("exit", f"exit code {verdict.exit_code}, state {verdict.state}")
        if verdict.exit_code in NOTHING_WRONG and wrong:
            said = (
                f"exit code {verdict.exit_code};"
                f" {len(lost)} lines lost, {len(self._double)} double;"
                f" of others' records {others} lost, {again} double"
            )
            yield Objection("green", said)
        bad = {each.kind for each in self._called}
        if verdict.exit_code == 1 and not bad:
            yield Objection("exit", f"exit code 1, state {verdict.state}, and no finding")
        if verdict.state == "complete" and bad:
            yield Objection("exit", f"complete, with findings: {', '.join(sorted(bad))}")
        waits = "; ".join(verdict.waits[:3])
        if (waits or verdict.state == "pending") and not self._truth.unloaded:
            yield Objection("stuck", f"it still waits: {waits}")
