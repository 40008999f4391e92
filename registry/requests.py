"""Request bodies: parsed into types, or rejected with one line that names the mistake."""

import codecs
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from registry.data_contracts import Metadata, RuleSet
from registry.errors import ErrorAnswer, empty_body, invalid_level, invalid_mode, malformed_body
from registry.schemas_topic.values import AVRO, NOTHING, Config, Level, Mode, Reference

Request = TypeVar("Request")

Number = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]


class SchemaRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A schema to register, look up or check."""

    schema: str | None = None
    schema_type: str | None = None
    references: tuple[Reference, ...] | None = None
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    id: Number | None = None
    version: Number | None = None
    # Confluent's registry writes these tags into the schema; this one rejects them.
    schema_tags_to_add: list[msgspec.Raw] | None = None
    schema_tags_to_remove: list[msgspec.Raw] | None = None
    propagate_schema_tags: bool | None = None

    @property
    def type(self) -> str:
        return AVRO if self.schema_type is None else self.schema_type

    @property
    def text(self) -> str:
        """The schema's text, or "" if there is none."""
        return (self.schema or "").strip()

    @property
    def wanted_id(self) -> int | None:
        """The id to register the schema under; only imports have one."""
        return self.id if self.id is not None and self.id >= 0 else None

    def with_schema(self, text: str, references: tuple[Reference, ...]) -> "SchemaRequest":
        return msgspec.structs.replace(self, schema=text, schema_type=None, references=references)

    @property
    def wanted_version(self) -> int | None:
        return self.version if self.version is not None and self.version > 0 else None


class _ConfigRequest(msgspec.Struct, frozen=True, rename="camel"):
    """All keys of Confluent's config. `compatibility` in requests is `compatibilityLevel` in
    answers.

    Null unsets a key; an absent key leaves it unchanged.
    """

    alias: str | UnsetType | None = UNSET
    alias_for_deks: str | UnsetType | None = UNSET
    normalize: bool | UnsetType | None = UNSET
    validate_fields: bool | UnsetType | None = UNSET
    validate_new_schemas: bool | UnsetType | None = UNSET
    validate_rules: bool | UnsetType | None = UNSET
    compatibility_level: str | UnsetType | None = msgspec.field(default=UNSET, name="compatibility")
    compatibility_policy: str | UnsetType | None = UNSET
    compatibility_group: str | UnsetType | None = UNSET
    default_metadata: msgspec.Raw = NOTHING
    override_metadata: msgspec.Raw = NOTHING
    default_rule_set: msgspec.Raw = NOTHING
    override_rule_set: msgspec.Raw = NOTHING


class _ModeRequest(msgspec.Struct, frozen=True):
    mode: str | None = None


# New values by field of Config; None unsets one, and NOTHING unsets one that holds JSON.
ConfigChange = dict[str, object]

_POLICIES: Final = frozenset({"STRICT", "LENIENT"})  # equivalent for Avro

# Not strict: like Jackson, accept numbers in strings.
_schema_decoder = msgspec.json.Decoder(SchemaRequest, strict=False)
_config_decoder = msgspec.json.Decoder(_ConfigRequest, strict=False)
_mode_decoder = msgspec.json.Decoder(_ModeRequest)


def schema_request(body: bytes) -> SchemaRequest:
    request = _decode(_schema_decoder, body)
    for name in ("schema_tags_to_add", "schema_tags_to_remove", "propagate_schema_tags"):
        if getattr(request, name):
            raise _not_acted_upon(name)
    return request


def config_request(body: bytes) -> ConfigChange:
    """Returns the settings to change. Raises an error for settings that the registry does not
    support."""
    request = _decode(_config_decoder, body)
    change: ConfigChange = {}
    for name in Config.__struct_fields__:
        setting = getattr(request, name)
        if isinstance(setting, msgspec.Raw):
            if bytes(setting) not in {b"", b"null"}:
                raise _not_acted_upon(name)
            if setting:
                change[name] = NOTHING
        elif setting is not UNSET:
            change[name] = setting
    for name in ("alias", "alias_for_deks", "validate_fields", "validate_rules"):
        if change.get(name):
            raise _not_acted_upon(name)
    if isinstance(request.compatibility_level, str):
        change["compatibility_level"] = _level(request.compatibility_level)
    if isinstance(request.compatibility_policy, str):
        change["compatibility_policy"] = _policy(request.compatibility_policy)
    return change


def _level(name: str) -> Level:
    if name.upper() not in Level.__members__:
        raise invalid_level()
    return Level[name.upper()]


def _policy(name: str) -> str:
    if name.upper() not in _POLICIES:
        raise ErrorAnswer(
            422, 42203, "`compatibilityPolicy` must be STRICT or LENIENT in this registry"
        )
    return name.upper()


class WantedMode(NamedTuple):
    mode: Mode
    written: str  # as the client wrote it, which the answer repeats


def mode_request(body: bytes) -> WantedMode:
    mode_text = _decode(_mode_decoder, body).mode or ""
    if mode_text.upper() not in Mode.__members__:
        raise invalid_mode()
    return WantedMode(Mode[mode_text.upper()], mode_text)


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


def _not_acted_upon(name: str) -> ErrorAnswer:
    camel_name = "".join(word.title() if i else word for i, word in enumerate(name.split("_")))
    return ErrorAnswer(
        422, 42203, f"`{camel_name}` is not supported by this registry: leave it out"
    )
