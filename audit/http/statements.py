"""Handles operators' statements: `POST /api/v1/accept` and `/api/v1/retire` write to the ledger
what `penstock audit accept` and `retire` write, with the same functions. Notes about alerts are in
audit/http/endpoints/alerts.py.

Access control authorizes the operator. The audit writes with its own login, and records the
operator's name and address. A statement takes effect once it has been read back from the ledger.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from http import HTTPStatus
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from audit.alerting.answers import Noted
from audit.configuration.config import Cluster
from audit.errors import BadQuery, NotNow, NotWritten, Unanswerable, Unknown
from audit.http.endpoints.alerts import NOTE_KINDS, note
from audit.http.responses import PageAnswer, problem
from audit.service.service import Service
from client.connection.brokers import Brokers
from client.errors import ClientError, UnknownTopic
from ground.known_types import known_type
from ground.printable import one_line
from ground.signatures.keys import SigningKey
from ledger.operators import write_accepted, write_retired
from schemas.errors import SchemaError
from schemas.registry_client import RegistryClient

THREADS: Final = 1
MOST_BYTES: Final = 64 * 1024  # of a body

_MOST_WAITING: Final = 8
_PATIENCE_S: Final = 10.0

log = logging.getLogger(__name__)

T = TypeVar("T")
Name = Annotated[str, Meta(max_length=4_096)]
Number = Annotated[int, Meta(ge=0, lt=2**62)]
Time = Annotated[int, Meta(ge=0, lt=2**53)]
Reason = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"\S")]


class Offsets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    first: Number
    count: Annotated[int, Meta(ge=1, lt=2**62)]


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run of a source: events from `seq` on or, without `events`, bytes."""

    source: Name
    seq: Number = 0
    events: Number = 0
    position: Number = 0
    end_position: Number = 0


class Acceptance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Accepts faults that will not be repaired and match all given conditions. Without `topic_id`,
    they are about the current topic; with an empty one, about any topic of this name. Faults that
    arise later are not covered, unless `runs` or `file` name them. A `from_time` of 0 alone retires
    the topic: nothing is expected of it until an agent ships to it again."""

    cluster: Name = ""
    topic: Annotated[str, Meta(min_length=1, max_length=249)]
    topic_id: Annotated[str, Meta(max_length=64)] | None = None
    partition: Annotated[int, Meta(ge=-1, lt=2**31)] = -1
    offsets: Annotated[tuple[Offsets, ...], Meta(max_length=500)] = ()
    runs: Annotated[tuple[Run, ...], Meta(max_length=500)] = ()
    host: Name = ""
    file: Name = ""
    from_time: Time | None = None
    to_time: Time | None = None
    reason: Reason

    def check(self) -> None:
        """Checks the statement. Raises BadQuery."""
        if self.offsets and self.partition < 0:
            raise BadQuery("`offsets` need a `partition`")
        for run in self.runs:
            if not run.source or not (run.events or run.position < run.end_position):
                raise BadQuery(
                    "each run needs a `source`, and either `events` or a range from `position`"
                    " to `end_position`"
                )
        is_timed = (self.from_time, self.to_time) != (None, None)
        if not (self.partition >= 0 or self.runs or self.host or self.file or is_timed):
            raise BadQuery(
                "give at least one of `partition`, `runs`, `host`, `file`, `from_time`, `to_time`"
            )
        if None not in (self.from_time, self.to_time) and self.from_time >= self.to_time:  # type: ignore[operator]
            raise BadQuery("`from_time` must be before `to_time`")


class Retirement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retires a host, or one of its agents: nothing is expected of it from `since` on. A `host`
    with a slash is a root of landed files: nothing is expected there until something is loaded
    into it."""

    cluster: Name = ""
    host: Annotated[str, Meta(min_length=1, max_length=4_096)]
    agent: Name = ""
    since: Time
    reason: Reason

    def check(self) -> None: ...


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Confirms that a statement is in the ledger."""

    cluster: str
    operator: str


class Kind(NamedTuple):
    """A path to which statements are posted. `write` runs on a thread, and may wait for brokers."""

    path: str
    body_type: type[Acceptance] | type[Retirement]
    write: Callable[[Brokers, RegistryClient, str, Mapping[str, Any], SigningKey | None], object]
    summary: str


STATEMENTS: Final = (
    Kind(
        "/api/v1/accept",
        Acceptance,
        write_accepted,
        "Operators: accept a fault, as `penstock audit accept` does.",
    ),
    Kind(
        "/api/v1/retire",
        Retirement,
        write_retired,
        "Operators: expect nothing more of a host or a root, as `penstock audit retire` does.",
    ),
)
PATHS: Final = frozenset(kind.path for kind in (*STATEMENTS, *NOTE_KINDS))


class Statements:
    """The handler of statements. Belongs to the server's event loop; `executor` runs the writes."""

    def __init__(self, service: Service, executor: Executor) -> None:
        self._service = service
        self._clusters: Mapping[str, Cluster] = service.config.all_clusters
        self._executor = executor
        self._waiting = 0
        self._kinds = {kind.path: kind for kind in (*STATEMENTS, *NOTE_KINDS)}

    async def answer(self, path: str, body: bytes, operator: str) -> PageAnswer:
        """Handles a statement. `operator`: the operator's name and address."""
        try:
            return PageAnswer(msgspec.json.encode(await self._stored(path, body, operator)))
        except Unanswerable as error:
            return problem(error.status, str(error))
        except Exception:  # a bug in one handler does not stop the server
            log.exception("request failed path=%r", path)
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error: see the audit's log")

    async def _stored(self, path: str, body: bytes, operator: str) -> Written | Noted:
        kind = self._kinds[path]
        try:
            statement = msgspec.json.decode(body, type=known_type(kind.body_type))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadQuery(f"invalid body: {error}") from None
        if not isinstance(statement, Acceptance | Retirement):
            if not self._service.config.has_logins:
                operator = f"{one_line(statement.by) or 'somebody'} {operator}"
            return await self._written(note, self._service, statement, operator)
        assert isinstance(kind, Kind)
        statement.check()
        name = self._cluster(statement.cluster)
        fields = {**msgspec.to_builtins(statement), "operator": operator}
        del fields["cluster"]
        await self._written(self._write, kind, name, fields)
        return Written(cluster=name, operator=operator)

    async def _written(self, write: Callable[..., T], *arguments: object) -> T:
        if self._waiting >= _MOST_WAITING:
            raise NotNow("too many statements are being written: try again in a moment")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._executor, write, *arguments
            )
        finally:
            self._waiting -= 1

    def _cluster(self, name: str) -> str:
        if name in self._clusters:
            return name
        if name or len(self._clusters) > 1:
            raise BadQuery(f"`cluster` must be one of {', '.join(self._clusters)}")
        return next(iter(self._clusters))

    def _write(self, kind: Kind, name: str, fields: Mapping[str, Any]) -> None:
        cluster = self._clusters[name]
        try:
            with (
                Brokers(cluster.bootstrap, patience_seconds=_PATIENCE_S) as brokers,
                RegistryClient(
                    cluster.registry_address,
                    patience_seconds=_PATIENCE_S,
                    first_contact_seconds=0,
                ) as registry,
            ):
                kind.write(brokers, registry, name, fields, self._service.signing_key)
        except UnknownTopic as error:
            raise Unknown(str(error)) from None
        except (ClientError, SchemaError) as error:
            log.error(
                "statement was not written path=%s operator=%a error=%s",
                kind.path,
                fields["operator"],
                error,
            )
            raise NotWritten(f"the ledger of {name} could not be written: {error}") from None
