"""A report as one HTML file that can be attached to a mail, opened anywhere, and printed.

The page's policy forbids scripts and loading of resources. All text from outside passes `_text`,
which makes control characters visible and escapes HTML.
"""

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Final

from audit.api.answers import ReportAnswer, TierTotals, TopicReport
from audit.headline import MARKS, NOT_LOADED
from audit.reconciling.findings import Finding, State
from ground.printable import one_line
from penstock import __version__
from penstock.cli.time_arguments import time_text
from penstock.report.audit_requests import verdict
from penstock.report.remarks import remark_lines, remarked
from penstock.report.words import (
    UNFAULTY,
    Count,
    ShownVerdict,
    dead_letter_words,
    delays_of,
    events_of,
    failing_words,
    finding_words,
    flow,
    headline_on,
    left_out,
    overview,
    several_roots,
    size,
    subject,
    tier_name,
    topic_name,
    topic_shown,
    unclaimed_words,
    unread_words,
    wait_words,
)

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def report_page(report: ReportAnswer) -> str:
    """Returns the report as an HTML document."""
    headline = headline_on(verdict(report), report.topics, are_unread=bool(report.unread))
    words = remarked(headline, report.topics)
    title = f"{headline.badge} {time_text(report.from_time)} to {time_text(report.to_time)} UTC"
    shown_verdict = ShownVerdict(headline.state, headline.mark, "")
    style = files("penstock.report").joinpath("report.css").read_text(encoding="utf-8")
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{_text(title)} · Penstock</title>",
            f"<style>\n{style}</style>",
            "</head>",
            "<body>",
            f'<header class="{_class(shown_verdict)}">',
            f"<h1>{_state(shown_verdict)}{_text(words)}</h1>",
            f'<p class="soft">{_text(subject(report))}</p>',
            "</header>",
            "<main>",
            *_body(report),
            "</main>",
            f"<footer>Penstock {__version__}. Times are UTC.</footer>",
            "</body>",
            "</html>\n",
        )
    )


def _body(report: ReportAnswer) -> Iterator[str]:
    if report.unread:
        yield "<section><h2>What is not read</h2><ul>"
        for unread in report.unread:
            yield _marked("missing", NOT_LOADED, f"<span>{_text(unread_words(unread))}</span>")
        yield "</ul></section>"
    if not report.topics:
        yield "<section><p>The audit knows of no topic.</p></section>"
        return
    yield from _overview(report.topics)
    for index, topic in enumerate(report.topics):
        yield from _topic(index, topic)


def _overview(topics: Sequence[TopicReport]) -> Iterator[str]:
    summary = overview(topics)
    yield '<div class="overview wide">'
    yield "<table>"
    cluster = ("cluster",) if summary.clusters else ()
    yield _heading(("verdict", *cluster, "topic"), (*summary.places, *summary.sums))
    for index, (topic, events, sums) in enumerate(summary.lines):
        link = f'<a href="#topic-{index}">{_text(topic_name(topic))}</a>'
        yield "<tr>"
        yield f"<td>{_state(topic_shown(topic))}</td>"
        if summary.clusters:
            yield f'<td class="name">{_text(topic.cluster)}</td>'
        yield f'<td class="name">{link}</td>'
        yield from (_number(event) for event in events)
        for name, value in zip(summary.sums, sums, strict=True):
            yield _number(value, fault=name not in UNFAULTY and value > 0)
        yield "</tr>"
    yield "</table>"
    yield "</div>"


def _topic(number: int, topic: TopicReport) -> Iterator[str]:
    yield f'<section id="topic-{number}">'
    cluster = f' <span class="soft">{_text(topic.cluster)}</span>'
    yield f"<header><h2>{_text(topic_name(topic))}{cluster}</h2>"
    yield f"{_state(topic_shown(topic))}</header>"
    if topic.flow.read:
        yield f"<p>{_text(flow(topic))}</p>"
    if topic.tiers:
        yield from _tiers(topic.tiers)
    if topic.failing_loads:
        yield "<h3>What is not loaded</h3>"
        yield "<ul>"
        for load in topic.failing_loads:
            yield _marked("missing", NOT_LOADED, f"<span>{_text(failing_words(load))}</span>")
        yield "</ul>"
    if topic.findings:
        yield "<h3>What is wrong</h3>"
        yield "<ul>"
        yield from (_finding(finding) for finding in topic.findings)
        yield "</ul>"
        yield _more(left_out(len(topic.findings), topic.findings_total, "such findings"))
    if sentences := dead_letter_words(topic):
        yield f'<p class="soft">{_text("; ".join(sentences))}.</p>'
    if topic.remarks:
        yield "<h3>What was altered</h3>"
        yield "<ul>"
        for sentence in remark_lines(topic):
            yield _marked("remark", "i", f"<span>{_text(sentence)}</span>")
        yield "</ul>"
    if topic.waits:
        yield "<h3>What it waits for</h3>"
        yield "<ul>"
        for wait in topic.waits:
            yield _item(State.PENDING, f"<span>{_text(wait_words(wait))}</span>")
        yield "</ul>"
        yield _more(left_out(len(topic.waits), topic.waits_total, "that it waits for"))
    for words in (*unclaimed_words(topic), *topic.retired_roots, *topic.reservations):
        yield f'<p class="soft">{_text(words)}.</p>'
    yield "</section>"


def _tiers(tiers: Sequence[TierTotals]) -> Iterator[str]:
    several = several_roots(tiers)
    most_events = max((tier.events for tier in tiers), default=0)
    names = ("events", "size", "late", "duplicates", "dead", "p50", "p95", "p99", "max")
    yield '<div class="wide">'
    yield "<table>"
    yield _heading(("tier",), names).replace("</th>", '</th><th class="bar"></th>', 1)
    for tier in tiers:
        width = 100 * max(tier.events, 0) / most_events if most_events > 0 else 0
        counts = (tier.late, tier.duplicates, tier.dead)
        yield "<tr>"
        yield f'<td class="name">{_text(tier_name(tier, several=several))}</td>'
        yield f'<td class="bar"><span style="width: {width:.2f}%"></span></td>'
        yield _number(events_of(tier))
        yield f'<td class="number">{_text(size(tier.bytes))}</td>'
        yield from (_number(Count(count)) for count in counts)
        yield from (f'<td class="number">{_text(delay)}</td>' for delay in delays_of(tier))
        yield "</tr>"
    yield "</table>"
    yield "</div>"


def _finding(finding: Finding) -> str:
    state = finding.kind.state if finding.is_open else State.COMPLETE
    return _item(state, f"<span>{_text(finding_words(finding))}</span>")


def _item(state: State, content: str) -> str:
    return _marked(state.value, MARKS[state], content)


def _marked(colour: str, mark: str, content: str) -> str:
    return f'<li class="{colour}"><span class="state">{mark}</span>{content}</li>'


def _more(words: str) -> str:
    return f'<p class="soft">{_text(words)}</p>' if words else ""


def _heading(cells: Sequence[str], number_names: Sequence[str]) -> str:
    cells = [f"<th>{_text(name)}</th>" for name in cells]
    cells += [f'<th class="number">{_text(name)}</th>' for name in number_names]
    return f"<tr>{''.join(cells)}</tr>"


def _state(shown: ShownVerdict) -> str:
    return f'<span class="state {_class(shown)}">{_text(shown.words)}</span>'


def _class(shown: ShownVerdict) -> str:
    """The CSS class: the state's, except for a topic that is not loaded."""
    return "missing" if shown.mark == NOT_LOADED else shown.state.value


def _number(value: Count | None, *, fault: bool = False) -> str:
    kind = "number fault" if fault else "number"
    return f'<td class="{kind}">{"-" if value is None else value}</td>'


def _text(text: str) -> str:
    return escape(one_line(text))
