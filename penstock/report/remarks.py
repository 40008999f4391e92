"""Remarks beside a verdict, in words: altered text and unread files.

A remark does not change the verdict: every line is accounted for, though some differ from the file.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from audit.api.answers import AlteredTotal, Headline, Remark, TopicReport
from ground.printable import one_line
from penstock.report.words import Count, headline_words

_MOST: Final = 100  # the audit's limit for one topic
_ORDER: Final = ("replaced", "cut", "dropped", "unread", "other")


def remarked(headline: Headline, topics: Sequence[TopicReport]) -> str:
    """Returns the verdict in words, with the remarks about these topics."""
    words = altered_words(total for topic in topics for total in topic.altered)
    return f"{headline_words(headline)}; {words}" if words else headline_words(headline)


def altered_words(totals: Iterable[AlteredTotal]) -> str:
    """Returns `9 lines had invalid characters, 1 line was cut`; empty if nothing was altered."""
    lines: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for total in totals:
        kind = total.kind if total.kind in _ORDER else "other"
        lines[kind] += total.lines
        counts[kind] += total.count
    return ", ".join(_summary(kind, lines[kind], counts[kind]) for kind in _ORDER if kind in counts)


def remark_lines(topic: TopicReport) -> Iterator[str]:
    """Yields a sentence for each file and kind of remark, up to the audit's limit."""
    yield from map(_sentence, topic.remarks)
    if len(topic.remarks) >= _MOST:
        yield f"only the first {_MOST} are shown; in all: {altered_words(topic.altered)}"


def _sentence(remark: Remark) -> str:
    file = remark.path or "other files"
    place = f" on {remark.host}" if remark.host else ""
    origin = f" (input {remark.input})" if remark.input else ""
    return one_line(f"{file}{place}{origin}: {_what(remark)}")


def _what(remark: Remark) -> str:
    match remark.kind:
        case "replaced":
            hint = f"; it looks like {remark.hint}: set `encoding`" if remark.hint else ""
            return (
                f"{_number(remark.lines, 'line')} had {_number(remark.count, 'invalid character')},"
                f" replaced by U+FFFD{hint}"
            )
        case "cut":
            lines = _were(remark.lines, "line")
            return f"{lines} cut at max_line_bytes, {_number(remark.count, 'byte')} left out"
        case "dropped":
            field = f" of field {remark.name}" if remark.name else " of other fields"
            return f"{_number(remark.count, 'value')}{field} dropped: not in the topic's schema"
        case "unread":
            is_plural = remark.count != 1
            return f"{Count(remark.count)} archives not read" if is_plural else "archive not read"
    return f"{_were(remark.lines, 'line')} altered"


def _summary(kind: str, lines: int, count: int) -> str:
    match kind:
        case "replaced":
            return f"{_number(lines, 'line')} had invalid characters"
        case "cut":
            return f"{_were(lines, 'line')} cut"
        case "dropped":
            return f"{_were(count, 'field value')} dropped"
        case "unread":
            return f"{_were(count, 'archive')} not read"
    return f"{_were(lines, 'line')} altered"


def _number(count: int, what: str) -> str:
    return f"{Count(count)} {what}{'' if count == 1 else 's'}"


def _were(count: int, what: str) -> str:
    return f"{_number(count, what)} {'was' if count == 1 else 'were'}"
