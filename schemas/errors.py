"""The errors of this package, in one tree.

    SchemaError
    ├── InvalidSchema           a text is not an Avro schema, or not a legal one: where and why
    │   └── NotAnEvent          a schema, but not of an event: its first field is not the header
    ├── BadMessage              bytes are not a message of the envelope
    └── RegistryError
        ├── RegistryNotReachable    no registry answers
        │   └── RegistryTimedOut        it accepts connections, and does not answer in time
        └── RegistryRefused         it answered with an error: `status`, `code`, `message`

Functions of this package raise no other errors of their own, whatever text or bytes they get.
"""

__all__ = [
    "BadMessage",
    "InvalidSchema",
    "NotAnEvent",
    "RegistryError",
    "RegistryNotReachable",
    "RegistryRefused",
    "RegistryTimedOut",
    "SchemaError",
]


class SchemaError(Exception):
    """Base class of the package's errors."""


class InvalidSchema(SchemaError):
    """An invalid schema. `where` names the type, field or line; `why` is the reason."""

    def __init__(self, why: str, where: str = "") -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.why = why
        self.where = where


class NotAnEvent(InvalidSchema):
    pass


class BadMessage(SchemaError):
    pass


class RegistryError(SchemaError):
    """A registry did not answer, or refused a request."""


class RegistryNotReachable(RegistryError):
    pass


class RegistryTimedOut(RegistryNotReachable):
    pass


class RegistryRefused(RegistryError):
    """The registry refused a request. `status` is the HTTP status; `code` and `message` are the
    registry's."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"{message} (error code {code})")
        self.status = status
        self.code = code
        self.message = message
