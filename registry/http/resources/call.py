"""A request that was matched to a route, with its caller."""

import logging
from collections.abc import Mapping

import msgspec

from registry.access.callers import Caller
from registry.access.permissions import ALL, Operation
from registry.errors import ErrorAnswer, forbidden
from registry.http.connections.messages import HttpRequest
from registry.http.resources.parameters import new_subject_name, subject_name
from registry.registry import Registry
from registry.requests import SchemaRequest
from registry.schemas_topic.contents import RegistryContents

log = logging.getLogger(__name__)


class Call(msgspec.Struct):
    """A matched request. `path` holds the values of the names in the route's pattern. Must not be
    modified, like HttpRequest."""

    registry: Registry
    request: HttpRequest
    path: Mapping[str, str]
    caller: Caller

    def may(self, operation: Operation, subject: str | None) -> bool:
        """Whether the caller may perform the operation; None stands for the global settings."""
        return self.caller.rights.may(operation, subject)

    def may_read(self, subject: str) -> bool:
        return self.may(Operation.READ, subject)

    def check_references(self, request: SchemaRequest) -> None:
        """Refuses references to subjects that the caller may not read, since answers show them."""
        for reference in request.references or ():
            if not self.may(Operation.READ, subject_name(reference.subject)):
                raise self.refused(Operation.READ, reference.subject)

    def refused(self, operation: Operation, subject: str | None) -> ErrorAnswer:
        """Logs the refusal and returns the error to raise."""
        log.warning(
            "refused: no permission principal=%r may=%s subject=%.200r host=%s",
            self.caller.name,
            operation,
            subject or ALL,
            self.caller.host,
        )
        # Without the subject's name, which the caller may not be allowed to know.
        return forbidden(f"no permission: {operation}")

    @property
    def contents(self) -> RegistryContents:
        return self.registry.contents

    @property
    def subject(self) -> str:
        return subject_name(self.path["subject"])

    @property
    def subject_or_all(self) -> str | None:
        """The subject of a setting, or None for the global one."""
        return subject_name(self.path["subject"]) if self.path.get("subject") else None

    @property
    def new_subject(self) -> str:
        """The subject to be written. Raises ErrorAnswer if subjects may not have this name."""
        return new_subject_name(self.path["subject"])

    @property
    def new_subject_or_all(self) -> str | None:
        return new_subject_name(self.path["subject"]) if self.path.get("subject") else None
