"""What clients send in bodies: read into types, or refused with a line that says what is wrong."""

import codecs
from typing import Annotated, NamedTuple, TypedDict, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from registry.data_contracts import Metadata, RuleSet
from registry.errors import Answered, empty_body, invalid_level, invalid_mode, malformed_body
from registry.values import AVRO, NOTHING, Level, Mode, Reference

Request = TypeVar("Request")

Number = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class SchemaRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A schema to be registered, looked up or checked."""

    schema: str | None = None
    schema_type: str | None = None
    references: tuple[Reference, ...] | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    id: Number | None = None
    version: Number | None = None

    @property
    def type(self) -> str:
        return AVRO if self.schema_type is None else self.schema_type

    @property
    def text(self) -> str:
        """The schema itself, "" if there is none."""
        return (self.schema or "").strip()

    @property
    def wanted_id(self) -> int | None:
        """Given only when schemas are imported."""
        return self.id if self.id is not None and self.id >= 0 else None

    def with_schema(self, text: str, references: tuple[Reference, ...]) -> "SchemaRequest":
        return msgspec.structs.replace(self, schema=text, schema_type=None, references=references)

    @property
    def wanted_version(self) -> int | None:
        return self.version if self.version is not None and self.version > 0 else None


class _ConfigRequest(msgspec.Struct, frozen=True, rename="camel"):
    """`compatibility` going in is `compatibilityLevel` coming out. Null unsets; nothing leaves."""

    alias: str | None = None
    normalize: bool | UnsetType | None = UNSET
    validate_fields: bool | None = None
    compatibility: str | UnsetType | None = UNSET
    compatibility_group: str | UnsetType | None = UNSET
    default_metadata: msgspec.Raw = NOTHING
    override_metadata: msgspec.Raw = NOTHING
    default_rule_set: msgspec.Raw = NOTHING
    override_rule_set: msgspec.Raw = NOTHING


class _ModeRequest(msgspec.Struct, frozen=True):
    mode: str | None = None


class ConfigChange(TypedDict, total=False):
    """Fields of a Config, and what they are set to; None unsets one."""

    normalize: bool | None
    compatibility_level: Level | None
    compatibility_group: str | None


# Not strict: a number may stand in a string, as it may for Jackson.
_schema_decoder = msgspec.json.Decoder(SchemaRequest, strict=False)
_config_decoder = msgspec.json.Decoder(_ConfigRequest, strict=False)
_mode_decoder = msgspec.json.Decoder(_ModeRequest)


def schema_request(body: bytes) -> SchemaRequest:
    return _decode(_schema_decoder, body)


def config_request(body: bytes) -> ConfigChange:
    """The settings that are to change; refused are those that nothing here would act upon."""
    request = _decode(_config_decoder, body)
    for name in ("alias", "validate_fields"):
        if getattr(request, name):
            raise _not_acted_upon(name)
    for name in ("default_metadata", "override_metadata", "default_rule_set", "override_rule_set"):
        if bytes(getattr(request, name)) not in {b"", b"null"}:
            raise _not_acted_upon(name)
    change: ConfigChange = {}
    if request.normalize is not UNSET:
        change["normalize"] = request.normalize
    if request.compatibility is not UNSET:
        change["compatibility_level"] = _level(request.compatibility)
    if request.compatibility_group is not UNSET:
        change["compatibility_group"] = request.compatibility_group
    return change


def _level(name: str | None) -> Level | None:
    if name is None:
        return None
    if name.upper() not in Level.__members__:
        raise invalid_level()
    return Level[name.upper()]


class WantedMode(NamedTuple):
    mode: Mode
    written: str  # as the client wrote it, which is how it is confirmed


def mode_request(body: bytes) -> WantedMode:
    written = _decode(_mode_decoder, body).mode or ""
    if written.upper() not in Mode.__members__:
        raise invalid_mode()
    return WantedMode(Mode[written.upper()], written)


def _decode(decoder: msgspec.json.Decoder[Request], body: bytes) -> Request:
    body = body.removeprefix(codecs.BOM_UTF8)
    if body.strip() in {b"", b"null"}:
        raise empty_body()
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise malformed_body(str(error)) from None
    except RecursionError:
        raise malformed_body("the body is nested too deeply") from None


def _not_acted_upon(name: str) -> Answered:
    shown = "".join(word.title() if i else word for i, word in enumerate(name.split("_")))
    return Answered(422, 42203, f"`{shown}` is not supported by this registry: leave it out")
