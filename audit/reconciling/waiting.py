"""Which agents are still waited for.

An agent that is retired is waited for up to then only. Where the time that is asked for is not over
yet, an agent that is as far as agents are (a window and what may be under way) is not behind.
"""

from collections.abc import Iterator, Sequence

from audit.picture import Agent, TierKind, TopicPicture, Window
from audit.reconciling import words
from audit.verdicts import Wait

_WINDOW = 60_000  # where there is none to tell
_FOR_EVER = 1 << 62


def required(agent: Agent, before: int) -> int:
    """Up to when it has to be done, for everything before a time."""
    return before if agent.required_until is None else min(before, agent.required_until)


def until(agents: Sequence[Agent]) -> list[tuple[int, int]]:
    """(up to when one is done, up to when it has to be), as pairs that say all: of those that have
    to be for ever, the one that is furthest behind."""
    found: list[tuple[int, int]] = []
    behind: int | None = None
    for each in agents:
        if each.required_until is None:
            if behind is None or each.until < behind:
                behind = each.until
        elif each.until < each.required_until:
            found.append((each.until, each.required_until))
    if behind is not None:
        found.append((behind, _FOR_EVER))
    return found


def waits_for_agents(window: Window, done: Sequence[tuple[int, int]]) -> bool:
    end = window.start + window.length
    return any(up_to < min(end, needed) and window.start < needed for up_to, needed in done)


def behind(picture: TopicPicture, windows: Sequence[Window]) -> Iterator[Agent]:
    """Those without whom this time is not complete, the one furthest behind first."""
    due = picture.to_time
    if due > picture.now:
        length = max((each.length for each in windows), default=_WINDOW)
        due = picture.now - 2 * length - picture.grace_millis
    late = [
        each for each in picture.agents if each.until < due and each.until < required(each, due)
    ]
    yield from sorted(late, key=lambda each: (each.until, each.host, each.agent))


def for_agent(agent: Agent) -> Wait:
    return Wait(
        on=TierKind.AGENT.value,
        words=words.behind(agent),
        host=agent.host,
        agent=agent.agent,
        since=agent.until,
    )
