"""IncrementalAlterConfigs (key 44): set, unset, extend or shorten single configs of a resource.

Left out: configs of brokers, which are read-only over the wire: the broker's file sets them.
"""

from dataclasses import dataclass
from enum import IntEnum

from wire.codec import Api
from wire.errors import ErrorCode


class ConfigOperation(IntEnum):
    """What happens to one config; APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    name: str
    config_operation: int  # a ConfigOperation; anything else is the peer's mistake
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsResponse:
    throttle_time: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...]


API = Api(
    key=44,
    name="IncrementalAlterConfigs",
    versions=range(2),
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
)
