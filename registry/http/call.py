"""One request on its way to what answers it."""

import logging
from collections.abc import Mapping

import msgspec

from registry.access.callers import Caller
from registry.access.permissions import ALL, Operation
from registry.contents import RegistryContents
from registry.errors import Answered, forbidden
from registry.http.messages import HttpRequest
from registry.http.parameters import new_subject_name, subject_name
from registry.registry import Registry
from registry.requests import SchemaRequest

log = logging.getLogger(__name__)


class Call(msgspec.Struct):
    """`path` holds what stood in the path where its pattern has names. Nobody changes one, as with
    HttpRequest."""

    registry: Registry
    request: HttpRequest
    path: Mapping[str, str]
    caller: Caller

    def may(self, operation: Operation, subject: str | None) -> bool:
        """None is what concerns all subjects."""
        return self.caller.rights.may(operation, subject)

    def may_read(self, subject: str) -> bool:
        return self.may(Operation.READ, subject)

    def check_references(self, request: SchemaRequest) -> None:
        """Answered if it refers to what the caller must not read: it would be shown with it."""
        for reference in request.references or ():
            if not self.may(Operation.READ, subject_name(reference.subject)):
                raise self.refused(Operation.READ, reference.subject)

    def refused(self, operation: Operation, subject: str | None) -> Answered:
        """To be raised; in the log it is one line."""
        log.warning(
            "refused: no permission principal=%r may=%s subject=%.200r host=%s",
            self.caller.name,
            operation,
            subject or ALL,
            self.caller.host,
        )
        # It names no subject: an id's may be one that the caller is not to know.
        return forbidden(f"no permission: {operation}")

    @property
    def contents(self) -> RegistryContents:
        return self.registry.contents

    @property
    def subject(self) -> str:
        return subject_name(self.path["subject"])

    @property
    def subject_or_all(self) -> str | None:
        """Of a setting: a subject's own, or with None that of all."""
        return subject_name(self.path["subject"]) if self.path.get("subject") else None

    @property
    def new_subject(self) -> str:
        """The same as `subject`, if it may be written."""
        return new_subject_name(self.path["subject"])

    @property
    def new_subject_or_all(self) -> str | None:
        return new_subject_name(self.path["subject"]) if self.path.get("subject") else None
