"""A report in the terminal: the verdict, a line for each topic, and the faults in words.

On a terminal it is coloured and fitted to the width; in a pipe it is plain text, one item per line,
unabridged. Colours are never the only sign.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import click

from audit.alerting.answers import NotedAlert
from audit.api.answers import ReportAnswer, TierTotals, TopicReport
from audit.cures.fault_cures import Cure, advice
from audit.headline import MARKS, NOT_LOADED
from audit.reconciling.findings import FaultKind, State
from ground.printable import one_line
from penstock.cli.output import print_table
from penstock.cli.time_arguments import time_text
from penstock.report.audit_requests import verdict
from penstock.report.remarks import remark_lines, remarked
from penstock.report.words import (
    Count,
    ShownVerdict,
    dead_letter_words,
    dead_letters,
    delays_of,
    events_of,
    failing_words,
    finding_words,
    flow,
    headline_on,
    left_out,
    overview,
    several_roots,
    subject,
    tier_name,
    topic_name,
    topic_shown,
    unclaimed_words,
    unread_words,
    wait_words,
)

_COLOURS: Final = {
    State.EMPTY: "",
    State.COMPLETE: "green",
    State.PENDING: "yellow",
    State.UNKNOWN: "cyan",
    State.MISSING: "red",
    State.DUPLICATED: "magenta",
    State.CHANGED: "red",
}
_COLOURS_OF_SIGNS: Final = {MARKS[state]: colour for state, colour in _COLOURS.items()} | {
    NOT_LOADED: "red",
}
_FEW_COMMANDS: Final = 10  # of a topic
_DELAYS: Final = ("p50", "p95", "p99", "max")


class _Remark(NamedTuple):
    """A sentence, and the coloured mark before it."""

    mark: str
    colour: str
    words: str


def show_report(
    report: ReportAnswer,
    *,
    everything: bool,
    newer: ReportAnswer | None = None,
    alerts: Sequence[NotedAlert] = (),
) -> None:
    """Prints the report. With `everything`, also prints details of topics without faults. Of
    anything `newer` than the report, prints only faults."""
    headline = headline_on(verdict(report), report.topics, are_unread=bool(report.unread))
    words = remarked(headline, report.topics)
    _print(headline.mark, _COLOURS_OF_SIGNS[headline.mark], f" {words}")
    print(subject(report))
    for unread in report.unread:
        _print(NOT_LOADED, "yellow", f" {unread_words(unread)}")
        _print_cure(Cure.of(unread))
    if newer is not None:
        _show_newer(newer)
    for alert in alerts:
        words = f" {alert.kind}, raised {time_text(alert.raised // 1000 * 1000)}: {alert.words}"
        _print(NOT_LOADED, "yellow", one_line(words))
        _print_cure(Cure.of(alert))
    if not report.topics:
        print("\nThe audit knows of no topic.")
        return
    print()
    _show_overview(report.topics)
    has_clusters = len({topic.cluster for topic in report.topics}) > 1
    for topic in report.topics:
        notable_topics = (
            topic.state.severity > State.COMPLETE.severity
            or topic.accepted
            or dead_letters(topic).total
            or topic.remarks
            or any(finding.kind is FaultKind.UNKNOWN for finding in topic.findings)
        )
        if everything or notable_topics:
            _show_topic(topic, cluster=has_clusters)


def _show_newer(newer: ReportAnswer) -> None:
    headline = headline_on(newer.state, newer.topics)
    if newer.state.is_fault or headline.mark == NOT_LOADED:
        _print(headline.mark, _COLOURS_OF_SIGNS[headline.mark], f" since then: {headline.title}")
        _print_cure(Cure.of(headline.worst[0].finding) if headline.worst else Cure())
        print(f"  see penstock report --from {time_text(newer.from_time).replace(' ', 'T')}")


def _print_cure(cure: Cure) -> None:
    if cure.command:
        print(f"  {one_line(advice(cure))}")


def _show_overview(topics: Sequence[TopicReport]) -> None:
    summary = overview(topics)
    rows = [
        {
            "verdict": topic_shown(topic).words,
            "cluster": topic.cluster,
            "topic": topic_name(topic),
            **dict(zip(summary.places, events, strict=True)),
            **dict(zip(summary.sums, sums, strict=True)),
        }
        for topic, events, sums in summary.lines
    ]
    cluster = ("cluster",) if summary.clusters else ()
    styles = {verdict.words: _colour(verdict) for verdict in map(topic_shown, topics)}
    print_table(("verdict", *cluster, "topic", *summary.places, *summary.sums), rows, styles=styles)


def _colour(shown: ShownVerdict) -> str:
    """The colour of the verdict's mark."""
    return _COLOURS_OF_SIGNS.get(shown.mark, "")


def _show_topic(topic: TopicReport, *, cluster: bool) -> None:
    print()
    suffix = f" (cluster {one_line(topic.cluster)})" if cluster else ""
    _print(one_line(topic_name(topic)), "", suffix, bold=True)
    if topic.flow.read:
        print(flow(topic))
    if topic.tiers:
        _show_tiers(topic.tiers)
    remarks = [*_remarks(topic)]
    if sys.stdout.isatty():
        _draw(remarks)
    else:
        for remark in remarks:
            print(f"{remark.mark} {remark.words}")


def _remarks(topic: TopicReport) -> Iterator[_Remark]:
    """The faults of a topic, its remarks, and what it waits for."""
    for load in topic.failing_loads:
        yield _Remark(NOT_LOADED, "red", failing_words(load))
    commands = 0
    for finding in topic.findings:
        state = finding.kind.state if finding.is_open else State.COMPLETE
        yield _Remark(MARKS[state], _COLOURS[state], finding_words(finding))
        if finding.command and commands < _FEW_COMMANDS:
            commands += 1
            yield _Remark(" ", "", one_line(advice(Cure.of(finding), finding.kind)))
    if note := left_out(len(topic.findings), topic.findings_total, "such findings"):
        yield _Remark(MARKS[State.MISSING], _COLOURS[State.MISSING], note)
    for sentence in (*dead_letter_words(topic), *remark_lines(topic)):
        yield _Remark("i", "", sentence)
    mark, colour = MARKS[State.PENDING], _COLOURS[State.PENDING]
    for wait in topic.waits:
        yield _Remark(mark, colour, wait_words(wait))
    if note := left_out(len(topic.waits), topic.waits_total, "that it waits for"):
        yield _Remark(mark, colour, note)
    quiet_words = (*unclaimed_words(topic), *topic.retired_roots, *topic.reservations)
    for words in map(one_line, quiet_words):
        yield _Remark("i", "", words)


def _show_tiers(tiers: Sequence[TierTotals]) -> None:
    """Print the tiers, without empty columns, so that they fit into eighty characters."""
    shows_roots = several_roots(tiers)
    notable_tiers = [
        name
        for name in ("late", "duplicates", "dead")
        if any(getattr(tier, name) for tier in tiers)
    ]
    rows = [
        {
            "tier": tier_name(tier, several=shows_roots),
            "events": events_of(tier),
            **{name: Count(getattr(tier, name)) for name in notable_tiers},
            **dict(zip(_DELAYS, delays_of(tier), strict=True)),
        }
        for tier in tiers
    ]
    print_table(("tier", "events", *notable_tiers, *_DELAYS), rows)


def _print(text: str, colour: str, rest: str, *, bold: bool = False) -> None:
    """Coloured on a terminal only."""
    click.echo(click.style(text, fg=colour or None, bold=bold) + rest)


def _draw(remarks: Sequence[_Remark]) -> None:
    """Draw marks in a column of their own, with the sentences beside it."""
    # Only a terminal waits for rich to be imported.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(overflow="fold")
    for remark in remarks:
        table.add_row(Text(remark.mark, style=remark.colour), Text(remark.words))
    Console().print(table)
