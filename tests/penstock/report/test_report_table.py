"""A report in the terminal and in a pipe."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from audit.api.answers import AlteredTotal, Remark, ReportAnswer, UnreadInput
from audit.reconciling.findings import FaultKind, Finding, KindCount, State, counted
from audit.reconciling.topic_verdict import Wait
from penstock.report.page import report_page
from penstock.report.remarks import altered_words, remark_lines
from penstock.report.table import show_report
from penstock.report.words import Count, size, span, topic_shown
from tests.penstock.answering_audit import Query, answering
from tests.penstock.report.made_up_report import (
    COMPLETE,
    MISSING,
    MORNING,
    NOT_LOADED,
    PENDING,
    all_shipped,
    report,
    tier,
    topic,
)
from tests.penstock.terminals import on_a_terminal

Shown = Callable[..., list[str]]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """The lines that are printed of a report."""

    def lines(made_up: ReportAnswer, **options: Any) -> list[str]:
        show_report(made_up, **{"everything": False, **options})
        return capsys.readouterr().out.splitlines()

    return lines


def cells(line: str) -> list[str]:
    return re.split(r"  +", line.strip())


def test_the_verdict_and_what_it_is_about_come_first(shown: Shown) -> None:
    assert shown(report(MISSING, COMPLETE))[:2] == [
        "✗ missing at the brokers: 12 events of clicks, host web-3",
        "2026-11-20 07:00 to 2026-11-20 08:00 UTC; the ledger was read up to 2026-11-20 08:00:04",
    ]


def test_what_is_wrong_since_then(shown: Shown) -> None:
    assert shown(report(COMPLETE), newer=report(PENDING)) == shown(report(COMPLETE))
    assert shown(report(COMPLETE), newer=report(MISSING))[2:4] == [
        "✗ since then: missing at the brokers: 12 events of clicks, host web-3",
        "  see penstock report --from 2026-11-20T07:00",
    ]


def test_a_line_for_each_topic(shown: Shown) -> None:
    lines = shown(report(MISSING, PENDING, COMPLETE))
    assert [cells(line) for line in lines[3:7]] == [
        ["verdict", "topic", "agent", "broker", "files", "dead", "pending", "missing"],
        ["✗ missing", "clicks", "48,000", "47,988", "47,980", "22", "0", "12"],
        ["… pending", "orders", "900", "900", "0", "0", "900", "0"],
        ["✓ complete", "page_views", "1,200", "1,200", "1,200", "0", "0", "0"],
    ]


def test_what_is_wrong_is_said_of_the_topic(shown: Shown) -> None:
    lines = shown(report(MISSING, COMPLETE))
    about = lines[lines.index("clicks") :]
    assert about[1] == "read 48,123 = shipped 48,000 + filtered 100 + dead 20 + lost 3 (512 bytes)"
    assert [cells(line) for line in about[2:6]] == [
        ["tier", "events", "late", "duplicates", "dead", "p50", "p95", "p99", "max"],
        ["agent", "48,000", "0", "0", "0", "512 ms", "2.0 s", "1.1 min", "< 1.5 h"],
        ["broker", "47,988", "0", "0", "0", "512 ms", "2.0 s", "1.1 min", "< 1.5 h"],
        ["files", "47,980", "3", "6", "2", "512 ms", "2.0 s", "1.1 min", "< 1.5 h"],
    ]
    assert about[6:] == [
        "✗ web-3: /var/log/shop/a.log, bytes 8,192 to 9,216 (events 120 to 131) are not at the "
        "brokers (clicks-0, offsets 4,711 to 4,722) [source a1-7]",
        "✓ web-4: /var/log/shop/b.log, bytes 0 to 512 (3 lines) were gone before they were read: "
        "truncated [source a2-1] (accepted: known since Monday)",
        "i 20 dead letters in clicks.dead",
        "i 2 dead letters in hdfs://nn/logs/_dead/clicks",
    ]


def test_what_it_waits_for(shown: Shown) -> None:
    assert shown(report(PENDING))[-2:] == [
        "… waits for an agent: web-9 (agent a9) is acknowledged up to 2026-11-20 07:12:00",
        "… and 6 more that it waits for",
    ]


def test_of_topics_with_which_all_is_well_it_says_no_more(shown: Shown) -> None:
    assert shown(report(COMPLETE))[-1].startswith("✓ complete")
    about = shown(report(COMPLETE), everything=True)
    assert "read 1,200 = shipped 1,200 + filtered 0 + dead 0 + lost 0" in about


def test_a_table_that_cannot_be_loaded_comes_first(shown: Shown) -> None:
    lines = shown(report(msgspec.structs.replace(PENDING, failing_loads=[NOT_LOADED])))
    assert lines[0] == ("! not loaded: orders into file:///srv/logs, since 2026-11-20 07:00:00 UTC")
    assert [line for line in lines if line.startswith("! not loaded  ")]
    assert (
        "! not loaded into file:///srv/logs since 2026-11-20 07:00: 1 of 1 records are dead, which "
        "is more than dead_share allows (0.01). What to do: look at orders.dead, or raise "
        "dead_share"
    ) in lines
    other = topic("clicks", state=State.PENDING, failing_loads=[NOT_LOADED])
    both = msgspec.structs.replace(PENDING, failing_loads=[NOT_LOADED])
    assert shown(report(other, both))[0] == lines[0]
    faulty = msgspec.structs.replace(MISSING, failing_loads=[NOT_LOADED])
    assert shown(report(faulty))[0].endswith("host web-3; 1 table cannot be loaded")


def test_of_no_events_not_every_line_is_accounted_for(shown: Shown) -> None:
    none = {"tiers": [tier("agent", 0), tier("broker", 0)], "flow": all_shipped(0)}
    quiet = topic("quiet", state=State.EMPTY, **none)
    lines = shown(report(quiet))
    assert lines[0] == "· empty: no events in this time"
    assert cells(lines[-1]) == ["· empty", "quiet", "0", "0"]
    lines = shown(report(quiet, COMPLETE))
    assert lines[0] == "✓ complete: every line is accounted for"
    assert len([line for line in lines if "quiet" in line]) == 1, "there is no more to say of it"


def test_of_a_time_that_is_not_over_the_moment_is_named(shown: Shown) -> None:
    until = {"complete_until": MORNING + 131_000}
    live = report(topic("a", **until), COMPLETE, now=MORNING + 140_500)
    lines = shown(live)
    assert lines[0] == "✓ every line up to 2026-11-20 07:02:11 UTC is accounted for"
    assert lines[1].startswith("2026-11-20 07:00 to 2026-11-20 07:02:20 UTC; ")
    assert cells(lines[4])[0] == "✓ up to 2026-11-20 07:02:11"
    waits = [Wait(on="agent", words="web-3: the agent is done up to 07:02:11")]
    pending = topic("a", state=State.PENDING, waits=waits, waits_total=1, **until)
    assert shown(report(pending))[0] == f"… pending: {lines[0][2:]}"


def test_inputs_that_are_not_read_make_it_pending(shown: Shown) -> None:
    words = "the agent on web-1 rejected \x1b[2Jshop.yaml"
    unread = UnreadInput(cluster="east", host="web-1", words=words, since=MORNING, command="cat x")
    live = topic("a", complete_until=MORNING + 131_000)
    lines = shown(report(live, state=State.PENDING, unread=[unread]))
    assert lines[0] == (
        "… pending: an agent does not read all of its inputs; "
        "every line read up to 2026-11-20 07:02:11 UTC is accounted for"
    )
    assert lines[2].startswith("! not read since 2026-11-20 07:00: the agent on web-1 rejected ")
    assert "\x1b" not in lines[2]
    assert lines[3].endswith("cat x")


def test_what_a_person_accepted_is_in_the_first_line_and_nothing_harmless(shown: Shown) -> None:
    found = Finding(kind=FaultKind.UNKNOWN, words="web-3: /var/log", accepted="known")
    moment = replace(found, accepted="", harmless="for a moment only")
    more = {"findings": [found, moment], "findings_total": 2}
    lines = shown(report(topic("clicks", accepted=counted([found]), **more), COMPLETE))
    assert lines[0].endswith("is accounted for, except for 1 unproven stretch (accepted)")
    assert "✓ web-3: /var/log (accepted: known)" in lines
    assert "✓ web-3: /var/log (harmless: for a moment only)" in lines


def test_what_cannot_be_proven_is_no_loss(shown: Shown) -> None:
    """Of all that is known, that it arrived."""
    blind = Finding(kind=FaultKind.UNKNOWN, words="", reason="names changed", host="web-3")
    known = {"state": State.UNKNOWN, "findings_total": 1, "kinds": counted([blind])}
    lines = shown(report(topic("clicks", findings=[blind], **known), COMPLETE))
    loss = "? possible loss: clicks, host web-3; all 2,400 events arrived; names changed"
    assert lines[0] == loss
    assert cells(lines[3]) == ["verdict", "topic", "agent", "broker", "files", "unknown"]
    assert cells(lines[4]) == ["? unknown", "clicks", "1,200", "1,200", "1,200", "1"]


def test_the_worst_hides_nothing_else(shown: Shown) -> None:
    counts = (
        KindCount(kind=FaultKind.CHANGED, findings=1, uncounted=1),
        KindCount(kind=FaultKind.MISSING, findings=2, events=200),
        KindCount(kind=FaultKind.UNKNOWN, findings=1, uncounted=1),
    )
    several = topic("clicks", state=State.CHANGED, missing=200, kinds=counts)
    lines = shown(report(several, COMPLETE))
    assert lines[0] == (
        "≠ changed: some events are not what was written; "
        "200 events have not arrived; 1 stretch cannot be proven"
    )
    assert cells(lines[3])[-3:] == ["missing", "changed", "unknown"]
    assert cells(lines[4]) == [
        *("≠ changed, ✗ missing, ? unknown", "clicks", "1,200", "1,200", "1,200"),
        *("200", "?", "1"),
    ]
    page = report_page(report(several))
    assert "≠ changed, ✗ missing, ? unknown" in page
    assert "200 events have not arrived" in page


def test_several_clusters_and_roots_are_told_apart(shown: Shown) -> None:
    roots = [tier("hdfs", 5, "hdfs://a/logs"), tier("hdfs", 4, "hdfs://b/logs")]
    one = topic("clicks", cluster="dc1", tiers=[tier("agent", 5), *roots])
    other = topic("clicks", cluster="dc2", tiers=[tier("broker", 7)], state=State.PENDING)
    lines = shown(report(one, other))
    hdfs = ("files hdfs://a/logs", "files hdfs://b/logs")
    assert [cells(line) for line in lines[3:6]] == [
        ["verdict", "cluster", "topic", "agent", *hdfs, "broker"],
        ["✓ complete", "dc1", "clicks", "5", "5", "4", "-"],
        ["… pending", "dc2", "clicks", "-", "-", "-", "7"],
    ]
    assert "clicks (cluster dc2)" in lines


def test_more_than_was_said_is_at_least_that(shown: Shown) -> None:
    tiers = [tier("mirror", 12_602, at_least=True), tier("broker", 16_201)]
    lines = shown(report(topic("clicks", tiers=tiers)), everything=True)
    assert cells(lines[4]) == ["✓ complete", "clicks", "≥12,602", "16,201"]
    assert "≥12,602" in report_page(report(topic("clicks", tiers=tiers)))


@pytest.mark.parametrize(
    ("unclaimed", "yet", "words"),
    [
        (2, 1, ["1 event at the brokers is", "sent it again", "1 event is", "report it"]),
        (1_239, 5, ["1,234 events at the brokers are", "sent them again", "5 events are", "them"]),
    ],
)
def test_what_no_agent_has_claimed_and_retired_roots(
    unclaimed: int, yet: int, words: list[str], shown: Shown
) -> None:
    root = "file:///w is retired: deleted (olga)"
    more = topic("clicks", unclaimed=unclaimed, unclaimed_yet=yet, retired_roots=[root])
    lines = [line[2:] for line in shown(report(more), everything=True) if line.startswith("i ")]
    words = [*words, root, root]
    for line, begin, end in zip(lines, words[::2], words[1::2], strict=True):
        assert (line.startswith(begin), line.endswith(end)) == (True, True)
        assert line in report_page(report(more))


def test_what_nobody_knows_is_no_number(shown: Shown) -> None:
    flow = msgspec.structs.replace(all_shipped(7), lost=-1, lost_bytes=5_000)
    lines = shown(report(topic("a", flow=flow)), everything=True)
    assert "read 7 = shipped 7 + filtered 0 + dead 0 + lost ? (4.9 KiB)" in lines


def test_names_cannot_command_the_terminal(shown: Shown) -> None:
    hostile = "a\x1b[2J\n\u202eb"
    found = Finding(kind=FaultKind.LOST, words=hostile, source=hostile, accepted=hostile)
    made_up = topic(
        hostile,
        cluster=hostile,
        state=State.MISSING,
        tiers=[tier("hdfs", 1, hostile), tier("hdfs", 1)],
        findings=[found],
        findings_total=1,
    )
    lines = shown(report(made_up, COMPLETE))
    assert not [line for line in lines if not line.isprintable()]
    assert sum("a\\x1b[2J\\n\\u202eb" in line for line in lines) >= 4


def test_it_fits_into_eighty_characters_of_a_terminal() -> None:
    made_up = {each.topic: each for each in (MISSING, PENDING, COMPLETE)}

    def answers(_: str, query: Query) -> tuple[int, bytes]:
        return 200, msgspec.json.encode(report(made_up[query["topic"]]))

    with answering(answers) as audit:
        asked = ("report", *made_up, "--hour", "2026-11-20T07", "--audit", audit.url)
        drawn = on_a_terminal(*asked, columns=80, code=1)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in drawn.splitlines()]
    assert "─" in drawn
    assert "\x1b[31m✗ missing" in drawn
    headings = [line for line in plain if "max" in line]
    assert len(headings) == 3  # no heading is broken
    assert [line for line in plain[2:] if len(line) > 80] == []


def test_figures() -> None:
    assert [span(each) for each in (-1, 0, 999, 1_000, 59_999, 90_000, 3 * 86_400_000)] == [
        *("-", "0 ms", "999 ms", "1.0 s", "60 s", "1.5 min", "3.0 d")
    ]
    assert [size(each) for each in (-1, 0, 1023, 1024, 2**60)] == [
        *("?", "0 bytes", "1,023 bytes", "1.0 KiB", "1,024.0 PiB")
    ]
    assert [str(Count(each)) for each in (-1, 0, 4_711)] == ["?", "0", "4,711"]


KINDS = [
    AlteredTotal("replaced", 9, 12),
    AlteredTotal("cut", 1, 2_048),
    AlteredTotal("dropped", 3, 3),
    AlteredTotal("unread", 0, 1),
    AlteredTotal("of a later release", 2, 2),
]
HOSTILE = "/var/log/<b>\x1b[31m\u202e.log"
REMARKS = [
    Remark("replaced", "shop", HOSTILE, "web-1", 9, 12, 1, 2, hint="cp1252"),
    Remark("cut", "shop", "/a.log", "web-1", 1, 2_048, 1, 2),
    Remark("dropped", "shop", "/a.log", "web-1", 3, 3, 1, 2, name="user"),
    Remark("unread", "shop", "/a.log.gz", "web-1", 0, 1, 1, 2),
    Remark("of a later release", "", "", "", 2, 2, 1, 2),
]
ALTERED = topic("orders", altered=KINDS, remarks=REMARKS)
WORDS = (
    "9 lines had invalid characters, 1 line was cut, 3 field values were dropped, "
    "1 archive was not read, 2 lines were altered"
)


def test_what_was_altered_stands_beside_the_verdict_and_changes_none(shown: Shown) -> None:
    assert altered_words(ALTERED.altered) == WORDS
    assert topic_shown(ALTERED).state is State.COMPLETE
    first, *lines = shown(report(ALTERED))
    assert first == f"✓ complete: every line is accounted for; {WORDS}"
    said = "\n".join(lines)
    assert "\ni /a.log on web-1 (input shop): 1 line was cut at max_line_bytes, 2,048 byt" in said
    assert "3 values of field user dropped: not in the topic's schema" in said
    assert "/a.log.gz on web-1 (input shop): archive not read" in said
    assert "it looks like cp1252: set `encoding`" in said
    first, *lines = shown(report(topic("plain")), everything=True)
    assert first == "✓ complete: every line is accounted for"
    assert not any(line.startswith("i ") for line in lines)


def test_names_from_outside_command_nothing() -> None:
    assert all(each.isprintable() for each in remark_lines(ALTERED))
    page = report_page(report(ALTERED))
    assert "What was altered" in page
    assert WORDS in page
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "\x1b" not in page
