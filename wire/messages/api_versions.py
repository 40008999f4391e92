"""ApiVersions (key 18): the APIs and versions that a broker supports.

Most clients send it first, before they know anything about the broker. A version that the broker
does not support is answered in version 0 with `unsupported_version`; the response header is always
v0. Not supported: features (`supported_features`, `finalized_features`) are always empty, since
Penstock has none that a cluster enables.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api


class ApiVersionsRequest(Struct, frozen=True, kw_only=True, gc=False):
    client_software_name: str = ""
    client_software_version: str = ""


class ApiVersion(Struct, frozen=True, kw_only=True, gc=False):
    api_key: int
    min_version: int
    max_version: int


class SupportedFeatureKey(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    min_version: int
    max_version: int


class FinalizedFeatureKey(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    max_version_level: int
    min_version_level: int


class ApiVersionsResponse(Struct, frozen=True, kw_only=True, gc=False):
    error_code: ErrorCode = ErrorCode.none
    api_keys: tuple[ApiVersion, ...]
    throttle_time: int = 0
    supported_features: tuple[SupportedFeatureKey, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()
    zk_migration_ready: bool = False


API = Api(
    key=18,
    name="ApiVersions",
    versions=range(5),
    request=ApiVersionsRequest,
    response=ApiVersionsResponse,
)
