"""What stands on the screen of `penstock up`."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.status.values import FailingLoadStatus, PipelineStatus, Rates
from penstock.up.programs import ProgramPhase
from penstock.up.screen_picture import ScreenState, picture
from tests.penstock.status.made_up import CALM, LOAD, status_of, topic
from tests.penstock.status.made_up import NOW as MILLIS
from tests.penstock.up.shown import DEAD, DIRECTORY, NOW, program, programs

TOPICS = [topic("logs", 1_234), topic("shop", 987_654_321)]


def rates() -> Rates:
    found = Rates()
    found.add(status_of([topic("logs", 1_034), topic("shop", 987_654_320)], now=MILLIS - 2_000))
    found.add(status_of(TOPICS))
    return found


SEEN = ScreenState(
    programs=programs(),
    status=status_of(TOPICS, load=LOAD),
    rates=rates(),
    notes=(),
    directory=DIRECTORY,
    here=DIRECTORY.parent,
    dashboard="http://127.0.0.1:8090",
    password=None,
    loads="",
    elsewhere=False,
    follows=False,
    now=NOW,
)


def lines(width: int = 79, height: int = 24, **changes: Any) -> list[str]:
    """What is shown of all that runs well, but for this."""
    seen = msgspec.structs.replace(SEEN, **changes)
    return [line.plain for line in picture(seen, width, height)]


def test_all_is_well() -> None:
    assert lines(72) == [
        "Penstock runs                                               Ctrl-C stops",
        "",
        "✓ zookeeper  127.0.0.1:2000  12 min",
        "✓ broker     127.0.0.1:2001  12 min",
        "✓ registry   127.0.0.1:2002  12 min",
        "✓ agent      127.0.0.1:2003  12 min",
        "✓ loader                     12 min",
        "✓ audit      127.0.0.1:2005  12 min",
        "",
        "topic  events/s       events       landed  not read  verdict",
        "logs        100        1,234          617   2.0 KiB  … pending",
        "shop        0.5  987,654,321  493,827,160   2.0 KiB  … pending",
        "",
        f"✓ {CALM}"[:71] + "…",
        "  last load 12 s ago: 4,000 rows of 2 topics, 50 not landed yet",
        "",
        "dashboard  http://127.0.0.1:8090",
        "logs       ./penstock-data/logs",
        "warehouse  ./penstock-data/warehouse",
    ]


def test_a_table_that_cannot_be_loaded_is_before_all_that_is_waited_for() -> None:
    failing = FailingLoadStatus(
        topic="logs",
        since=MILLIS - 200_000,
        reason="1 of 1 records are dead, which is more than dead_share allows (0.01)",
        cure="look at logs.dead, or raise dead_share",
    )
    complete = msgspec.structs.replace(topic("logs", state="complete"), load_fails=True)
    said = msgspec.structs.replace(
        status_of([complete], verdict="complete", load=LOAD), failing_loads=(failing,)
    )
    shown = lines(60, status=said)
    assert "! loader                     12 min" in shown
    assert next(each for each in shown if each.startswith("logs  ")).endswith("! not loaded")
    at = shown.index("! not loaded: 1 table cannot be loaded")
    assert shown[at + 1 : at + 4] == [
        "! logs is not loaded, for 3 min: 1 of 1 records are dead,",
        "  which is more than dead_share allows (0.01)",
        "  what to do: look at logs.dead, or raise dead_share",
    ]
    unheard = msgspec.structs.replace(said, alerts=-1, topics=(), verdict="")
    assert "! logs is not loaded, for 3 min" in "\n".join(lines(status=unheard))


def test_what_is_waited_for_is_not_cut_within_its_time() -> None:
    waits = "web-1: the agent is done up to 2026-11-20 07:12:00 (last heard at 2026-11-20 07:13:02)"
    old = topic("logs", until=MILLIS - 3_600_000, waits=waits)
    shown = lines(60, status=status_of([old], load=LOAD))
    at = next(number for number, each in enumerate(shown) if "logs waits" in each)
    assert " ".join(each.strip() for each in shown[at : at + 2]) == f"logs waits: {waits}"


def test_a_program_that_died() -> None:
    shown = lines(programs=programs(ProgramPhase.RUNNING, DEAD))
    assert shown[0].startswith("Penstock runs in part ")
    assert shown[7:11] == [
        "✗ audit      killed by SIGKILL, again in 4 s",
        "    second \\x1b[2J",
        "    third",
        "    fourth",
    ]


def test_a_program_that_came_back() -> None:
    back = program("agent", ProgramPhase.STARTING, since=NOW - 2, restarts=2)
    shown = lines(programs=programs(ProgramPhase.RUNNING, back))
    assert shown[5] == "… agent      127.0.0.1:2003  starting, 2 s  restarted 2 times"
    once = program("agent", restarts=1, ended="killed by SIGKILL")
    shown = lines(programs=programs(ProgramPhase.RUNNING, once))
    row = "✓ agent      127.0.0.1:2003  12 min  restarted once: killed by SIGKILL"
    assert shown[5] == row


@pytest.mark.parametrize(
    ("phase", "head", "first"),
    [
        (ProgramPhase.WAITING, "Penstock starts ", "· zookeeper  127.0.0.1:2000  waiting"),
        (ProgramPhase.STOPPING, "Penstock stops ", "… zookeeper  127.0.0.1:2000  stopping"),
        (ProgramPhase.STOPPED, "Penstock stops ", "· zookeeper  127.0.0.1:2000  stopped"),
    ],
)
def test_phases(phase: ProgramPhase, head: str, first: str) -> None:
    shown = lines(programs=programs(phase), status=status_of(problems=["no broker"]))
    assert shown[0].startswith(head)
    assert shown[2] == first
    # Neither that nothing has come, nor that nobody answers, is news then.
    assert not any("No lines" in line or "no broker" in line for line in shown)


def test_nothing_has_come_yet() -> None:
    shown = lines(status=status_of())
    words = "No lines have come yet. To follow files: penstock up --follow '/var/log/*.log'"
    assert words in shown
    assert not any("pending" in line for line in shown)
    shown = lines(status=status_of(), follows=True)
    assert "No lines have come yet from the followed files: penstock agent --status" in shown


def test_that_the_first_load_takes_its_time() -> None:
    shown = lines(status=status_of(TOPICS))
    assert "  nothing has been loaded yet (the first load has to start Spark)" in shown
    shown = lines(status=status_of(TOPICS), loads="starting Spark")
    assert "  nothing has been loaded yet; now: starting Spark" in shown


def test_until_the_audit_answers_nothing_is_said_of_loads_and_verdicts() -> None:
    said = status_of(TOPICS, alerts=-1, verdict="")
    starting = program("audit", ProgramPhase.STARTING)
    programs_ = programs(ProgramPhase.RUNNING, starting)
    shown = lines(status=said, programs=programs_)
    assert not any("audit answers" in line or "loaded" in line for line in shown)
    shown = lines(status=said)
    assert "? unknown: no audit answers" in shown
    assert not any("loaded" in line for line in shown)


def test_behind_locks_it_says_how_to_log_in() -> None:
    password = DIRECTORY / "security" / "admin.password"
    shown = lines(password=password)
    assert "log in     as admin, password in ./penstock-data/security/admin.password" in shown


def test_at_other_ports_it_says_how_commands_find_it() -> None:
    assert lines(elsewhere=True)[-1] == ("commands   . ./penstock-data/environment")


def test_nobody_has_been_asked_yet() -> None:
    assert len(lines(status=None)) == 12


def test_what_is_wrong_is_said() -> None:
    said = status_of([topic("t", until=0, waits="an agent")], problems=["no agent", "a", "b", "c"])
    shown = lines(status=said)
    assert [line for line in shown if line.startswith(("! ", "  t "))] == [
        "  t waits: an agent",
        *("! no agent", "! a", "! b"),
    ]


def test_what_a_broker_has_lost_is_not_cut_off_before_it_says_what() -> None:
    lost = "broker at http://127.0.0.1:9095: lost: shop-0 has lost acknowledged messages "
    said = status_of([topic("t")], problems=[lost + "51,200 to 51,399"])
    shown = lines(status=said)
    assert "acknowledged messages 51,200 to 51,399" in " ".join(each.strip() for each in shown)


def test_of_many_topics_and_notes_the_newest_notes_and_first_topics_are_shown() -> None:
    said = status_of([topic(f"t{number:02}") for number in range(40)])
    notes = [f"12:00:{number:02}  note {number}" for number in range(20)]
    shown = lines(status=said, notes=notes)
    assert len(shown) == 24
    assert shown[-1] == "warehouse  ./penstock-data/warehouse"
    assert "12:00:19  note 19" in shown
    topics = [line for line in shown if line.startswith("t0")]
    assert f"and {40 - len(topics)} more" in shown


TEXTS = st.text(max_size=30)
COUNTS = st.integers(-1, 10**15)


@given(
    width=st.integers(1, 300),
    height=st.integers(1, 60),
    phases=st.lists(st.sampled_from(ProgramPhase), min_size=6, max_size=6),
    said=st.none()
    | st.builds(
        lambda names, end, problems: status_of(
            [topic(name, end) for name in names], problems=problems
        ),
        st.lists(TEXTS, max_size=30),
        COUNTS,
        st.lists(TEXTS, max_size=5),
    ),
    notes=st.lists(st.text(st.characters(categories=["L", "N"]), max_size=120), max_size=12),
)
def test_it_fits_whatever_is_shown(
    width: int,
    height: int,
    phases: list[ProgramPhase],
    said: PipelineStatus | None,
    notes: list[str],
) -> None:
    shown = tuple(
        each._replace(phase=phase) for each, phase in zip(programs(), phases, strict=True)
    )
    seen = msgspec.structs.replace(SEEN, programs=shown, status=said, notes=notes)
    drawn = picture(seen, width, height)
    assert len(drawn) <= height
    assert all(line.cell_len <= width for line in drawn)
    assert all(line.plain.isprintable() for line in drawn)
