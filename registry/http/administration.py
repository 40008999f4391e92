"""What clients change through a registry, noted in its administration log: who, when, from where.

A request is noted by the registry that its client came to, which knows the client's address and
what the client was told; the one that writes notes nothing of what another passes on, where it
believes that one. A request that changes nothing (a schema that is registered already) leaves no
entry. Belongs to the event loop, which waits for no disk here.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from ground.administration import OK, Change, Kind, Who
from ground.administration_log import AdministrationLog
from registry.contents import RegistryContents
from registry.errors import Answered
from registry.http.call import Call
from registry.http.messages import HttpResponse
from registry.http.parameters import flag, subject_name
from registry.log.forwarding import FORWARDED

_ANONYMOUS: Final = "ANONYMOUS"
_ALL: Final = "*"

Details = Mapping[str, str]


class Remembered(msgspec.Struct, frozen=True):
    """How a kind of request is called."""

    action: str
    kind: Kind


class Administration:
    def __init__(self, log: AdministrationLog, listener: str) -> None:
        self._log = log
        self._listener = listener

    async def noted(
        self,
        call: Call,
        remembered: Remembered,
        serve: Callable[[], HttpResponse | Awaitable[HttpResponse]],
    ) -> HttpResponse:
        """The answer, when its entry is on the way. Raises what `serve` raises."""
        subject = subject_name(call.path["subject"]) if call.path.get("subject") else None
        before = _state(call.contents, remembered.kind, subject)
        versions = _count(call, remembered, subject)

        def note(result: str, message: str = "", **details: Details) -> None:
            change = Change(
                action=remembered.action,
                kind=remembered.kind,
                name=subject or _ALL,
                result=result,
                message=message,
                **details,
            )
            self._log.note(self._who(call), change)

        try:
            served = serve()
            response = served if isinstance(served, HttpResponse) else await served
        except Answered as error:
            note(str(error.code), error.message)
            raise
        except Exception:
            note("FAILED", "see the registry's log; what was done of it is not known")
            raise
        told = _document(response)
        if response.status >= HTTPStatus.BAD_REQUEST:  # by the registry that writes
            note(str(told.get("error_code", response.status)), str(told.get("message", "")))
        elif remembered.kind is not Kind.SCHEMA:
            after = _state(call.contents, remembered.kind, subject)
            if after != before:
                note(OK, before=_only(before, after), after=_only(after, before))
        elif remembered.action == "delete":
            deleted = "for ever" if flag(call.request.query, "permanent") else "softly"
            note(OK, before={"versions": told["deleted"]}, after={"deleted": deleted})
        elif _count(call, remembered, subject) != versions:
            note(OK, after=_registered(call.contents, subject or "", told.get("id")))
        return response

    def _who(self, call: Call) -> Who:
        request = call.request
        return Who(
            call.caller.name or _ANONYMOUS,
            request.peer.host,
            "forwarded" if FORWARDED in request.headers else self._listener,
            request.headers.get("user-agent", ""),
        )


def _count(call: Call, remembered: Remembered, subject: str | None) -> int:
    if remembered.kind is not Kind.SCHEMA:
        return 0
    return len(call.contents.versions(subject or "", deleted=True))


def _state(contents: RegistryContents, kind: Kind, subject: str | None) -> Details:
    """What is set."""
    match kind:
        case Kind.COMPATIBILITY:
            config = contents.own_config(subject)
            fields = {} if config is None else msgspec.json.decode(msgspec.json.encode(config))
            return {
                key: each if isinstance(each, str) else _json(each) for key, each in fields.items()
            }
        case Kind.MODE:
            mode = contents.mode(subject)
            return {} if mode is None else {"mode": mode.value}
        case _:
            return {}


def _only(one: Details, other: Details) -> Details:
    """What is not the same there."""
    return {key: text for key, text in one.items() if other.get(key) != text}


def _registered(contents: RegistryContents, subject: str, schema_id: object) -> Details:
    numbers = [each.version for each in contents.versions(subject) if each.id == schema_id]
    version = {"version": str(numbers[-1])} if numbers else {}
    return {"id": str(schema_id), **version}


def _document(response: HttpResponse) -> dict[str, Any]:
    """What the client is told, of which some is noted."""
    try:
        document = msgspec.json.decode(response.body) if isinstance(response.body, bytes) else None
    except msgspec.MsgspecError:
        document = None
    if isinstance(document, dict):
        return document
    listed = document if isinstance(document, list) else [document]
    return {"deleted": ",".join(map(str, listed))}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
