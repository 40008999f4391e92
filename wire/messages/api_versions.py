"""ApiVersions (key 18): which APIs, in which versions, a broker speaks.

The first request of most clients, sent before they know anything. A version that the broker does
not know is answered in version 0 with `unsupported_version`; the response header is always v0.
Left out: features (`supported_features`, `finalized_features`) are always empty, since Penstock
has no feature that a cluster switches on.
"""

from msgspec import Struct

from wire.codec import Api
from wire.errors import ErrorCode


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
