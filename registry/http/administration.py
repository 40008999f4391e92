"""Entries of the administration log for changes made through a registry.

The registry that a client connected to writes the entry, since it knows the client's address and
the answer. The writer writes none for a request that a trusted registry forwarded. A request
without effect, such as registering an existing schema, leaves no entry. Belongs to the event loop,
which is not blocked by disk writes here.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from ground.administration.entries import OK, Change, Kind, Who
from ground.administration.log import AdministrationLog
from registry.errors import ErrorAnswer
from registry.http.connections.messages import HttpResponse
from registry.http.resources.call import Call
from registry.http.resources.parameters import flag, subject_name
from registry.log.forwarding import FORWARDED
from registry.schemas_topic.contents import RegistryContents

_ANONYMOUS: Final = "ANONYMOUS"
_ALL: Final = "*"

Details = Mapping[str, str]


class ChangeKind(msgspec.Struct, frozen=True):
    """The kind of a change, as the log names it."""

    action: str
    kind: Kind


class Administration:
    def __init__(self, log: AdministrationLog, listener: str) -> None:
        self._log = log
        self._listener = listener

    async def noted(
        self,
        call: Call,
        kind: ChangeKind,
        serve: Callable[[], HttpResponse | Awaitable[HttpResponse]],
    ) -> HttpResponse:
        """Serves the request and queues its entry for the log. Raises the errors of `serve`."""
        subject = subject_name(call.path["subject"]) if call.path.get("subject") else None
        state_before = _state(call.contents, kind.kind, subject)
        versions = _count(call, kind, subject)

        def note(result: str, message: str = "", **details: Details) -> None:
            change = Change(
                action=kind.action,
                kind=kind.kind,
                name=subject or _ALL,
                result=result,
                message=message,
                **details,
            )
            self._log.note(self._who(call), change)

        try:
            pending_response = serve()
            response = (
                pending_response
                if isinstance(pending_response, HttpResponse)
                else await pending_response
            )
        except ErrorAnswer as error:
            note(str(error.code), error.message)
            raise
        except Exception:
            note("FAILED", "see the registry's log; the outcome is unknown")
            raise
        document = _document(response)
        if response.status >= HTTPStatus.BAD_REQUEST:  # answered by the registry that writes
            note(str(document.get("error_code", response.status)), str(document.get("message", "")))
        elif kind.kind is not Kind.SCHEMA:
            state_after = _state(call.contents, kind.kind, subject)
            if state_after != state_before:
                note(
                    OK,
                    before=_only(state_before, state_after),
                    after=_only(state_after, state_before),
                )
        elif kind.action == "delete":
            manner = "for ever" if flag(call.request.query, "permanent") else "softly"
            note(OK, before={"versions": document["deleted"]}, after={"deleted": manner})
        elif _count(call, kind, subject) != versions:
            note(OK, after=_registered(call.contents, subject or "", document.get("id")))
        return response

    def _who(self, call: Call) -> Who:
        request = call.request
        return Who(
            call.caller.name or _ANONYMOUS,
            request.peer.host,
            "forwarded" if FORWARDED in request.headers else self._listener,
            request.headers.get("user-agent", ""),
        )


def _count(call: Call, kind: ChangeKind, subject: str | None) -> int:
    if kind.kind is not Kind.SCHEMA:
        return 0
    return len(call.contents.versions(subject or "", deleted=True))


def _state(contents: RegistryContents, kind: Kind, subject: str | None) -> Details:
    """The settings before or after a change."""
    match kind:
        case Kind.COMPATIBILITY:
            config = contents.own_config(subject)
            fields = {} if config is None else msgspec.json.decode(msgspec.json.encode(config))
            return {
                key: setting if isinstance(setting, str) else _json(setting)
                for key, setting in fields.items()
            }
        case Kind.MODE:
            mode = contents.mode(subject)
            return {} if mode is None else {"mode": mode.value}
        case _:
            return {}


def _only(details: Details, other: Details) -> Details:
    """The entries that are not equal in `other`."""
    return {key: text for key, text in details.items() if other.get(key) != text}


def _registered(contents: RegistryContents, subject: str, schema_id: object) -> Details:
    numbers = [version.version for version in contents.versions(subject) if version.id == schema_id]
    version = {"version": str(numbers[-1])} if numbers else {}
    return {"id": str(schema_id), **version}


def _document(response: HttpResponse) -> dict[str, Any]:
    """The answer's JSON; a list or number of deleted versions as `deleted`."""
    try:
        document = msgspec.json.decode(response.body) if isinstance(response.body, bytes) else None
    except msgspec.MsgspecError:
        document = None
    if isinstance(document, dict):
        return document
    versions = document if isinstance(document, list) else [document]
    return {"deleted": ",".join(map(str, versions))}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
