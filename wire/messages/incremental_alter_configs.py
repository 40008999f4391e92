"""IncrementalAlterConfigs (key 44): sets, deletes, appends to or subtracts from configs of a
resource.

The resource is a topic or a broker; `broker/configs/dynamic_configs.py` lists which broker configs
may change.
"""

from enum import IntEnum

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class ConfigOperation(IntEnum):
    """The change to one config; APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterableConfig(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    config_operation: int  # a ConfigOperation; other values are the peer's error
    value: str | None


class AlterConfigsResource(Struct, frozen=True, kw_only=True, gc=False):
    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


class IncrementalAlterConfigsRequest(Struct, frozen=True, kw_only=True, gc=False):
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str


class IncrementalAlterConfigsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...]


API = Api(
    key=44,
    name="IncrementalAlterConfigs",
    versions=range(2),
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
)
