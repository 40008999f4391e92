"""AlterClientQuotas (key 49): sets and removes quotas of entities."""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api
from wire.messages.describe_client_quotas import EntityData


class OpData(Struct, frozen=True, kw_only=True, gc=False):
    key: str
    value: float
    remove: bool


class EntryData(Struct, frozen=True, kw_only=True, gc=False):
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]


class AlterClientQuotasRequest(Struct, frozen=True, kw_only=True, gc=False):
    entries: tuple[EntryData, ...]
    validate_only: bool = False


class AlteredData(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    entity: tuple[EntityData, ...]


class AlterClientQuotasResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    entries: tuple[AlteredData, ...]


API = Api(
    key=49,
    name="AlterClientQuotas",
    versions=range(2),
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
)
