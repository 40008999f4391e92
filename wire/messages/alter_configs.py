"""AlterConfigs (key 33): replaces all overrides of a resource by those given.

The resource is a topic or a broker; `broker/configs/dynamic_configs.py` lists which broker configs
may change.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class AlterableConfig(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    value: str | None


class AlterConfigsResource(Struct, frozen=True, kw_only=True, gc=False):
    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


class AlterConfigsRequest(Struct, frozen=True, kw_only=True, gc=False):
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str


class AlterConfigsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    responses: tuple[AlterConfigsResourceResponse, ...]


API = Api(
    key=33,
    name="AlterConfigs",
    versions=range(3),
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
)
