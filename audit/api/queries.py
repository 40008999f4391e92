"""The queries of `/api/v1`: the parameters of each path, with their bounds. The store takes queries
in this form.

An empty parameter counts as not given. An unknown or repeated one is rejected: after a misspelling
the answer would be to another question.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from audit.api.answers import ListPage
from audit.errors import BadQuery
from audit.reconciling.findings import FaultKind, State
from ground.known_types import known_type

MOST_ITEMS: Final = 500  # of a page
MOST_CELLS: Final = 5_000
LONGEST_MILLIS: Final = 31 * 86_400_000

_MOST_PARAMETERS: Final = 16
_MOST_TEXT: Final = 16_384  # names from outside can be long, and are searched for unchanged
_LATEST: Final = 253_402_300_800_000  # the year 10000

Text = Annotated[str, msgspec.Meta(max_length=_MOST_TEXT)]
Time = Annotated[int, msgspec.Meta(ge=0, le=_LATEST, description="milliseconds since 1970 UTC")]
PageNumber = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
PageSize = Annotated[int, msgspec.Meta(ge=1, le=MOST_ITEMS)]

Q = TypeVar("Q", bound="Query")
T = TypeVar("T")


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query without parameters."""


class Paged(Query, frozen=True, kw_only=True):
    """A query for one page of items. Pages are numbered from 1."""

    page: PageNumber = 1
    size: PageSize = 50

    @property
    def skipped(self) -> int:
        """Returns the number of items before the page."""
        return max(self.page - 1, 0) * self.size

    def cut(self, items: Sequence[T]) -> Sequence[T]:
        """Returns the items of the page."""
        return items[self.skipped : self.skipped + self.size]

    def of(self, total: int) -> ListPage:
        """Returns the page's position in a list of this length."""
        return ListPage(page=self.page, size=self.size, total=total)


class TopicsQuery(Paged, frozen=True, kw_only=True):
    cluster: Text = ""
    state: State | None = None
    search: Text = ""
    sort: Annotated[str, msgspec.Meta(pattern="^-?(state|topic|events|missing|excess|agents)$")] = (
        "state"
    )
    hours: Annotated[int, msgspec.Meta(ge=1, le=168)] = 24


class Timed(Query, frozen=True, kw_only=True):
    from_time: Time | None = msgspec.field(default=None, name="from")
    to_time: Time | None = msgspec.field(default=None, name="to")


class TopicQuery(Timed, frozen=True, kw_only=True):
    topic: Text
    cluster: Text = ""
    step: Annotated[int, msgspec.Meta(ge=1_000, le=LONGEST_MILLIS)] | None = None


class FindingsQuery(Paged, frozen=True, kw_only=True):
    from_time: Time | None = msgspec.field(default=None, name="from")
    to_time: Time | None = msgspec.field(default=None, name="to")
    cluster: Text = ""
    topic: Text = ""
    host: Text = ""
    kind: FaultKind | None = None
    accepted: bool | None = None


class HostsQuery(Paged, frozen=True, kw_only=True):
    topic: Text
    cluster: Text = ""
    search: Text = ""


class HostTopicsQuery(Query, frozen=True, kw_only=True):
    host: Text
    cluster: Text = ""


class SourcesQuery(Paged, frozen=True, kw_only=True):
    topic: Text
    cluster: Text = ""
    host: Text = ""
    search: Text = ""
    sources: Text = ""  # several, separated by commas


class AgentsQuery(Paged, frozen=True, kw_only=True):
    cluster: Text = ""
    state: Annotated[str, msgspec.Meta(pattern="^(ok|behind|silent|never|retired)$")] | None = None
    search: Text = ""
    signature: Annotated[str, msgspec.Meta(pattern="^(signed|unsigned|rejected)$")] | None = None
    sort: Annotated[str, msgspec.Meta(pattern="^-?(state|host|lag|heard|until)$")] = "state"


class LoadsQuery(Paged, frozen=True, kw_only=True):
    cluster: Text = ""
    topic: Text = ""
    destination: Text = ""


class BrokersQuery(Query, frozen=True, kw_only=True):
    cluster: Text = ""


class KeysQuery(Paged, frozen=True, kw_only=True):
    cluster: Text = ""


class HealthQuery(Paged, frozen=True, kw_only=True):
    cluster: Text = ""
    state: Annotated[str, msgspec.Meta(pattern="^(ok|warning|away|unknown)$")] | None = None


class GroupsQuery(Paged, frozen=True, kw_only=True):
    cluster: Text = ""
    topic: Text = ""
    group: Text = ""
    search: Text = ""


Offset = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
MOST_MESSAGES: Final = 50


class MessagesQuery(Query, frozen=True, kw_only=True):
    """A query for messages: at most one of `offset`, `before` and `time`; without any, the last
    messages."""

    topic: Text
    cluster: Text = ""
    topic_id: Text = ""  # default: the present topic
    partition: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    offset: Offset | None = None  # the first message
    before: Offset | None = None  # the end, exclusive
    time: Time | None = None  # from the first message of this time or later
    size: Annotated[int, msgspec.Meta(ge=1, le=MOST_MESSAGES)] = MOST_MESSAGES


class AlertsQuery(Paged, frozen=True, kw_only=True):
    state: Annotated[str, msgspec.Meta(pattern="^(raised|resolved)$")] | None = None


class HistoryQuery(Timed, frozen=True, kw_only=True):
    """A query for the history of a topic, a host, or everything."""

    cluster: Text = ""
    topic: Text = ""
    host: Text = ""


class ReportQuery(Timed, frozen=True, kw_only=True):
    cluster: Text = ""
    topic: Text = ""


class HourQuery(Query, frozen=True, kw_only=True):
    topic: Text
    hour: Time
    cluster: Text = ""
    destination: Text = ""
    rebuilt: Time = 0
    uncompared: Text = ""  # PARTITION:FIRST-END, separated by commas


def order(sort: str, allowed: Collection[str]) -> tuple[str, bool]:
    """Returns the column to sort by, and whether a leading `-` reverses the order. Raises
    ValueError."""
    name = sort.removeprefix("-")
    if name not in allowed:
        raise ValueError(f"`sort`: {name!r} is not one of {', '.join(allowed)}")
    return name, sort.startswith("-")


def pattern(search: str) -> str:
    """Returns a pattern for LIKE, with backslash as escape, that matches values containing the
    text."""
    text = "".join(f"\\{character}" if character in "\\%_" else character for character in search)
    return f"%{text}%"


def asked(kind: type[Q], query: bytes) -> Q:
    """Parses the query of a URL. Raises BadQuery."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError:
        raise BadQuery(
            f"the query must be UTF-8, percent-encoded, with at most {_MOST_PARAMETERS} parameters"
        ) from None
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise BadQuery(f"`{_short(name)}` is given twice")
        values[name] = value
    parameters = [field.encode_name for field in msgspec.structs.fields(kind)]
    for name in values:
        if name not in parameters:
            raise BadQuery(f"unknown parameter `{_short(name)}`: {_listed(parameters)}")
    try:
        return msgspec.convert(
            {name: value for name, value in values.items() if value}, known_type(kind), strict=False
        )
    except msgspec.ValidationError as error:
        raise BadQuery(str(error)) from None


def between(
    query: Timed | FindingsQuery, *, now: int, window: int, otherwise: int
) -> tuple[int, int]:
    """Returns the queried period, in whole windows; by default the last `otherwise`
    milliseconds."""
    to_time = query.to_time
    if to_time is not None and query.from_time is not None and query.from_time >= to_time:
        raise BadQuery("`from` must be before `to`")
    if to_time is None:
        start = query.from_time
        to_time = now + 1 if start is None or start < now else start + otherwise
    to_time = -(-to_time // window) * window
    from_time = to_time - otherwise if query.from_time is None else query.from_time
    from_time = max(0, from_time // window * window)
    if from_time >= to_time:
        raise BadQuery("`from` must be before `to`")
    if to_time - from_time > LONGEST_MILLIS + window:
        raise BadQuery("`from` and `to` must not be more than 31 days apart")
    return from_time, to_time


def _listed(allowed: Sequence[str]) -> str:
    return f"allowed are {', '.join(allowed)}" if allowed else "none is allowed"


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:40]}…"
