"""Verdicts on an hour of a topic, from the audit's answers.

An hour is complete for a load that is about to read it once agents and brokers have delivered it
(`/api/v1/hour`), and for a job that reads landed rows once these are accounted for as well
(`/api/v1/report`). The first question is always asked: a report calls an hour without any events
`empty`, and only the first answer proves that there were none to come.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

_HOUR: Final = timedelta(hours=1)
_MOST_LETTERS: Final = 1_000
_MOST_REASONS: Final = 3
_MOST_TIERS: Final = 50
_LATER: Final = {408, 425, 429}  # with 5xx: statuses of requests that may succeed later


class BadHour(ValueError):
    """The hour is not one that can be waited for."""


class State(StrEnum):
    COMPLETE = "complete"
    WAITING = "waiting"
    HOPELESS = "hopeless"  # waiting does not help


@dataclass(frozen=True)
class Tier:
    """The events of an hour at one tier: agent, broker, or hdfs with the root of the files."""

    name: str
    destination: str
    events: int


@dataclass(frozen=True)
class Verdict:
    """A state with its reason. It is sent from the trigger to the task as a dictionary."""

    state: State
    reason: str
    tiers: tuple[Tier, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"state": self.state.value}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Verdict":
        tiers = tuple(Tier(**tier) for tier in values["tiers"])
        return cls(State(values["state"]), values["reason"], tiers)


@dataclass(frozen=True, kw_only=True)
class HourQuestion:
    """`landed`: whether rows in Hadoop count as well."""

    topic: str
    hour: int  # its beginning, milliseconds since 1970 UTC
    cluster: str = ""
    landed: bool = True

    @property
    def words(self) -> str:
        begin = datetime.fromtimestamp(self.hour / 1000, UTC)
        return f"{one_line(self.topic)} {begin:%Y-%m-%dT%H}"

    @property
    def gate_query(self) -> Mapping[str, str]:
        return {"cluster": self.cluster, "topic": self.topic, "hour": str(self.hour)}

    @property
    def report_query(self) -> Mapping[str, str]:
        end = self.hour + _HOUR // timedelta(milliseconds=1)
        times = {"from": str(self.hour), "to": str(end)}
        return {"cluster": self.cluster, "topic": self.topic, **times}


def hour_of(text: str | datetime, now: datetime) -> int:
    """Returns the beginning of the hour that contains a time, which is in UTC unless it says
    otherwise. Raises BadHour, also if the hour has not begun: it is a mistake in the DAG."""
    try:
        time = text if isinstance(text, datetime) else datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadHour(f"hour {text!r} is not a time such as 2026-11-20T07:00:00Z") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    begin = time.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if begin > now:
        raise BadHour(f"hour {begin:%Y-%m-%dT%H} (UTC) is in the future")
    return int(begin.timestamp()) * 1000


def gate_verdict(status: int, body: bytes) -> Verdict:
    """The verdict by `/api/v1/hour`, on agents and brokers."""
    answer = _answer(status, body)
    if isinstance(answer, Verdict):
        return answer
    if unknown := answer.get("unknown"):
        return Verdict(State.HOPELESS, one_line(str(unknown)))
    if answer.get("complete") is True:
        return Verdict(State.COMPLETE, one_line(f"by {answer.get('by') or 'the audit'}"))
    missing = one_line(str(answer.get("missing") or "the audit, which gave no reason"))
    return Verdict(State.WAITING, f"waits for {missing}")


def report_verdict(status: int, body: bytes) -> Verdict:
    """The verdict by `/api/v1/report`, on files as well."""
    answer = _answer(status, body)
    if isinstance(answer, Verdict):
        return answer
    topics = [topic for topic in _list(answer, "topics") if isinstance(topic, dict)]
    tiers = tuple(
        Tier(str(tier.get("tier")), str(tier.get("destination")), int(tier.get("events") or 0))
        for topic in topics
        for tier in _list(topic, "tiers")
    )[:_MOST_TIERS]
    state = str(answer.get("state"))
    if state in {"complete", "empty"}:
        return Verdict(State.COMPLETE, _counted(tiers), tiers)
    reasons = [
        str(item.get("words"))
        for topic in topics
        for kind in ("findings", "failing_loads", "waits")
        for item in _list(topic, kind)
    ] + [str(item.get("words")) for item in _list(answer, "unread")]
    shown_reasons = "; ".join(map(one_line, reasons[:_MOST_REASONS])) or "no reason is given"
    if len(reasons) > _MOST_REASONS:
        shown_reasons += f"; and {len(reasons) - _MOST_REASONS} more"
    return Verdict(State.WAITING, f"{one_line(state)}: {shown_reasons}", tiers)


def one_line(text: str) -> str:
    """One printable line of a text from outside, cut to a length that logs can take."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MOST_LETTERS])


def _counted(tiers: Sequence[Tier]) -> str:
    counts = ", ".join(f"{tier.events:,} at {tier.name}" for tier in tiers)
    return f"by agents, brokers and files: {one_line(counts) or 'no events'}"


def _answer(status: int, body: bytes) -> dict[str, Any] | Verdict:
    """The answer's values, or what its status means."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        values = None
    if status == 200:
        if isinstance(values, dict):
            return values
        return Verdict(State.HOPELESS, "the server did not answer like an audit")
    reason = values.get("error") if isinstance(values, dict) else ""
    words = one_line(f"the audit answered HTTP {status}{f': {reason}' if reason else ''}")
    if status in {401, 403}:
        words += "; look at the token, or the user and password, of the connection"
    is_later = status >= 500 or status in _LATER
    return Verdict(State.WAITING if is_later else State.HOPELESS, words)


def _list(values: Mapping[str, Any], key: str) -> list[Any]:
    items = values.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
