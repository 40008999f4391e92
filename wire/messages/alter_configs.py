"""AlterConfigs (key 33): replace all overrides of a resource by those given.

Left out: configs of brokers, which are read-only over the wire: the broker's file sets them.
"""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse:
    throttle_time: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...]


API = Api(
    key=33,
    name="AlterConfigs",
    versions=range(3),
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
)
