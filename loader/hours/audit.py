"""Asks the audit service over HTTP whether agents and brokers have delivered everything of an hour.

Every outcome is a verdict: if the audit is unreachable, hours only wait. After a failed connection
or a malformed answer it is not asked again in this load; a refused question does not affect others.
Answers are truncated to what a marker may hold.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

import msgspec

from ground.http.client import HttpClient, HttpError, parse_program_url
from ground.http.security import HttpSecurity, access_to
from ground.intervals import Intervals
from ground.known_types import known_type
from ground.printable import plain_words
from loader.hours.completeness import MOST_NAMES, Complete, HourVerdict, Waiting
from loader.values.tables import Hour

_SECONDS: Final = 10.0  # timeout of an answer
_MOST_BYTES: Final = 1024 * 1024
_MOST_LETTERS: Final = 1_000
_LONGEST_NAME: Final = 255
_MOST_STRETCHES: Final = 100  # in one question
_OK: Final = 200
_REFUSED: Final = range(400, 500)

Question = tuple[str, Hour]  # a topic and an hour of it


class _Gate(msgspec.Struct, frozen=True):
    """The audit's answer; see docs/audit-in-detail.md. Unknown fields are ignored."""

    complete: bool
    by: str = ""
    missing: str = ""
    names: tuple[str, ...] = ()


class _Problem(msgspec.Struct, frozen=True):
    error: str


class _AuditError(Exception):
    """The error of a failed query; its text continues `the audit at …, which`."""

    def __init__(self, words: str, *, refused: bool = False) -> None:
        super().__init__(words)
        self.refused = refused


class Audit:
    """The client of the audit service. May be used by any thread."""

    def __init__(
        self,
        url: str,
        cluster: str,
        *,
        security: HttpSecurity = HttpSecurity(),  # noqa: B008 -- it is a value
        seconds: float = _SECONDS,
    ) -> None:
        """`cluster` is the agents' name of the cluster."""
        self._access = access_to(security)
        self._url = parse_program_url(url)
        self._cluster = cluster
        self._seconds = seconds
        self.away: Waiting | None = None  # set when the audit is not asked any more

    def ask(
        self,
        questions: Iterable[Question],
        *,
        destination: str = "",
        rebuilt: Mapping[Hour, int] = MappingProxyType({}),
    ) -> dict[Question, HourVerdict]:
        """Asks these questions one after the other. For hours in `rebuilt`, asks about their files
        at this destination, as of the time at which they were rebuilt (milliseconds)."""
        verdicts: dict[Question, HourVerdict] = {}
        with HttpClient(self._url, access=self._access, most_bytes=_MOST_BYTES) as client:
            for question in questions:
                verdicts[question] = self.away or self._answer(
                    client, *question, _of_files(destination, rebuilt.get(question[1]))
                )
        return verdicts

    def has_signed(
        self, topic: str, hour: Hour, offsets: Mapping[int, Intervals]
    ) -> Waiting | None:
        """Asks whether agents have signed any of these offsets, by partition, which no load has
        compared. An audit that does not know the question is not waited for."""
        stretches = [
            f"{partition}:{first}-{end}"
            for partition, intervals in sorted(offsets.items())
            for first, end in intervals
        ]
        with HttpClient(self._url, access=self._access, most_bytes=_MOST_BYTES) as client:
            for begin in range(0, len(stretches), _MOST_STRETCHES):
                part = ",".join(stretches[begin : begin + _MOST_STRETCHES])
                try:
                    gate = self._gate(client, topic, hour, {"uncompared": part})
                except _AuditError as error:
                    if error.refused:
                        return None
                    return Waiting(f"the audit at {self._url}, which {error}")
                if not gate.complete:
                    return Waiting(_line(gate.missing, _MOST_LETTERS))
        return None

    def _answer(
        self, client: HttpClient, topic: str, hour: Hour, of_files: Mapping[str, str]
    ) -> HourVerdict:
        try:
            gate = self._gate(client, topic, hour, of_files)
        except _AuditError as error:
            waiting_verdict = Waiting(f"the audit at {self._url}, which {error}")
            if not error.refused:
                self.away = waiting_verdict
            return waiting_verdict
        if gate.complete:
            return Complete(f"audit: {_line(gate.by, _MOST_LETTERS)}" if gate.by else "audit")
        missing_names = _line(gate.missing, _MOST_LETTERS)
        names = tuple(_line(name, _LONGEST_NAME) for name in gate.names[:MOST_NAMES])
        return Waiting(missing_names or f"the audit at {self._url}, which gave no reason", names)

    def _gate(
        self, client: HttpClient, topic: str, hour: Hour, of_files: Mapping[str, str]
    ) -> _Gate:
        query = urlencode({"cluster": self._cluster, "topic": topic, "hour": hour, **of_files})
        try:
            answer = client.ask("GET", f"/api/v1/hour?{query}", within=self._seconds)
        except HttpError as error:
            raise _AuditError(f"could not be asked ({error.why})") from None
        if answer.status != _OK:
            problem = f"answered HTTP {answer.status}{_problem(answer.body)}"
            raise _AuditError(problem, refused=answer.status in _REFUSED)
        try:
            return msgspec.json.decode(answer.body, type=known_type(_Gate))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise _AuditError("did not answer like an audit service") from None


def _of_files(destination: str, rebuilt: int | None) -> Mapping[str, str]:
    """The parameters of a question that is also about files."""
    return {} if rebuilt is None else {"destination": destination, "rebuilt": str(rebuilt)}


def _problem(body: bytes) -> str:
    """The reason in an error answer, if it has one."""
    try:
        reason = msgspec.json.decode(body, type=known_type(_Problem)).error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
    return f": {_line(reason, _MOST_LETTERS)}"


def _line(text: str, most: int) -> str:
    """One printable line of text."""
    return plain_words(text[:most])
