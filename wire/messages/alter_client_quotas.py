"""AlterClientQuotas (key 49): set and remove quotas of entities."""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode
from wire.messages.describe_client_quotas import EntityData


@dataclass(frozen=True, slots=True, kw_only=True)
class OpData:
    key: str
    value: float
    remove: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryData:
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequest:
    entries: tuple[EntryData, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredData:
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    entity: tuple[EntityData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponse:
    throttle_time: int = 0
    entries: tuple[AlteredData, ...]


API = Api(
    key=49,
    name="AlterClientQuotas",
    versions=range(2),
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
)
