"""DescribeConfigs (key 32): returns configs of topics and brokers, with their sources and types.

Not supported: broker loggers. The enumerations here serve all three config APIs.
"""

from enum import IntEnum

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class ResourceType(IntEnum):
    """The types of resources with configs. The fields are plain integers, since a peer may send
    any."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigSource(IntEnum):
    """The origin of a config's value."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class ConfigType(IntEnum):
    """The type of a config's value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class DescribeConfigsResource(Struct, frozen=True, kw_only=True, gc=False):
    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = ()  # null requests all


class DescribeConfigsRequest(Struct, frozen=True, kw_only=True, gc=False):
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


class DescribeConfigsSynonym(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    value: str | None
    source: int


class DescribeConfigsResourceResult(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    value: str | None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = None


class DescribeConfigsResult(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    results: tuple[DescribeConfigsResult, ...]


API = Api(
    key=32,
    name="DescribeConfigs",
    versions=range(1, 5),
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
)
