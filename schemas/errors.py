"""What can go wrong with schemas, in one tree.

    SchemaError
    ├── InvalidSchema           a text is no Avro schema, or no legal one: says where and why
    │   └── NotAnEvent          a schema, but not of an event: the header does not come first
    ├── BadMessage              bytes are no message of the envelope
    └── RegistryError
        ├── RegistryNotReachable    no registry answers
        └── RegistryRefused         it answered with an error: `status`, `code`, `message`

Functions of this package raise these and nothing else of their own, whatever text or bytes they
are given.
"""

__all__ = [
    "BadMessage",
    "InvalidSchema",
    "NotAnEvent",
    "RegistryError",
    "RegistryNotReachable",
    "RegistryRefused",
    "SchemaError",
]


class SchemaError(Exception):
    """Something about a schema is not as it must be."""


class InvalidSchema(SchemaError):
    """`where` names the type or field (or the line of the text), `why` what is wrong with it."""

    def __init__(self, why: str, where: str = "") -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.why = why
        self.where = where


class NotAnEvent(InvalidSchema):
    pass


class BadMessage(SchemaError):
    pass


class RegistryError(SchemaError):
    """A registry did not do what it was asked to."""


class RegistryNotReachable(RegistryError):
    pass


class RegistryRefused(RegistryError):
    """`status` is HTTP's, `code` and `message` are the registry's own."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"{message} (error code {code})")
        self.status = status
        self.code = code
        self.message = message
