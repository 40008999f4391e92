"""Truths, records, rows and verdicts of the witness's tests, as values."""

from collections.abc import Sequence

from tests.campaigns.reading import DeadLetter, Record, Row
from tests.campaigns.witness.history import Kept
from tests.campaigns.witness.judging import judge
from tests.campaigns.witness.truth import File, Line, Truth
from tests.campaigns.witness.verdict import Called, Objection, Seen, Verdict

PATH = "/logs/one/a.log"
SIZE = 10  # bytes of a line
GREEN = Verdict(exit_code=0, state="complete")


def written(lines: int) -> Truth:
    """A file of so many lines, of ten bytes each, written at 1000, 2000 and so on."""
    truth = Truth(host="web-1", topic="t")
    file = File("a", 1, [PATH])
    for number in range(lines):
        start = number * SIZE
        text = f"line {number:04}"
        file.lines.append(Line(text, file, number, start, start + SIZE, (number + 1) * 1000))
    file.size = lines * SIZE
    truth.files.append(file)
    return truth


def landed(*numbers: int, source: str = "s1") -> list[Row]:
    return [
        Row("part.parquet", source, each, each * SIZE, each, f"line {each:04}") for each in numbers
    ]


def logged(*numbers: int) -> list[Kept]:
    return [Kept(Record(each, "s1", each, each * SIZE, f"line {each:04}")) for each in numbers]


def theirs(offset: int, text: str = "", *, time: int = 9_000) -> Kept:
    """A record of another producer."""
    return Kept(Record(offset, "", -1, -1, text or f"theirs {offset}", time), others=True)


def replayed(number: int, offset: int) -> Kept:
    record = Record(offset, "s1", number, number * SIZE, f"line {number:04}", 9_000)
    return Kept(record, others=True)


def red(*findings: Called, state: str = "missing", missing: int = 0) -> Verdict:
    of_hosts = sum(each.events for each in findings if each.host and each.kind == "missing")
    return Verdict(1, state, findings, missing=missing, hosts_missing=of_hosts)


def missing(first: int, events: int, *, words: str = "not at the brokers") -> Called:
    return Called(
        kind="missing",
        words=words,
        host="web-1",
        path=PATH,
        source="s1",
        seq=first,
        events=events,
        position=first * SIZE,
        end_position=(first + events) * SIZE,
    )


def rules(truth: Truth, rows: Sequence[Row], verdict: Verdict) -> list[str]:
    return sorted(each.rule for each in judged(truth, rows, verdict))


def judged(truth: Truth, rows: Sequence[Row], verdict: Verdict) -> list[Objection]:
    numbers = range(len(truth.files[0].lines))
    return judge(truth, Seen(rows, logged(*numbers)), verdict)


def numbers_of(objection: Objection) -> list[int]:
    """Of its lines."""
    return [line.number for line in objection.lines if isinstance(line, Line)]


def offsets(first: int, count: int, *, events: int = -1) -> Called:
    """A finding that knows offsets alone."""
    return Called(
        *("missing", f"offsets {first} to {first + count - 1}"),
        partition=0,
        offset=first,
        offsets=count,
        events=count if events < 0 else events,
    )


def of_others(
    truth: Truth,
    verdict: Verdict,
    *others: Kept,
    rows: Sequence[Row] = (),
    dead: Sequence[DeadLetter] = (),
) -> list[str]:
    """Rules that are broken where all lines have landed, and others wrote these records, too."""
    numbers = range(len(truth.files[0].lines))
    truth.foreign |= {each.record.text for each in others}
    seen = Seen([*landed(*numbers), *rows], [*logged(*numbers), *others], dead)
    return sorted(each.rule for each in judge(truth, seen, verdict))


def row_of(kept: Kept, file: str = "part.parquet") -> Row:
    one = kept.record
    return Row(file, one.source, one.seq, max(one.position, 0), one.offset, one.text)
