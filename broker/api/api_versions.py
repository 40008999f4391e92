"""ApiVersions (key 18), versions 0–4.

The table of what is served. Produce is listed from version 0, although versions below 3 are
refused: librdkafka would not compress otherwise. A client's name and version (from version 3) must
be printable as Kafka wants them; they are used for nothing else.

OffsetFetch and JoinGroup are listed in versions whose answers have a place for an error, and are
then refused. Where a coordinator is found and they are not listed, aiokafka waits for ever to join,
and librdkafka 2, to fetch an offset, ends its process by a segmentation fault.

Not here: requests of a version that is not served. The dispatch answers those in version 0, with
this same table, before anything is decoded. Features: there are none.
"""

import re
from typing import TYPE_CHECKING

from broker.caller import Caller
from wire.apis import APIS
from wire.errors import ErrorCode
from wire.messages import produce
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from broker.broker import Broker

_OFFSET_FETCH, _JOIN_GROUP = 9, 11
_REFUSED = (
    ApiVersion(api_key=_OFFSET_FETCH, min_version=2, max_version=7),
    ApiVersion(api_key=_JOIN_GROUP, min_version=0, max_version=5),
)
_SOFTWARE = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def advertised(error_code: ErrorCode = ErrorCode.none) -> ApiVersionsResponse:
    """The table of all that is served."""
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=tuple(
            ApiVersion(
                api_key=key,
                min_version=0 if key == produce.API.key else api.versions[0],
                max_version=api.versions[-1],
            )
            for key, api in sorted(APIS.items())
        )
        + _REFUSED,
    )


def handle(_broker: "Broker", request: ApiVersionsRequest, _caller: Caller) -> ApiVersionsResponse:
    software = (request.client_software_name, request.client_software_version)
    if any(text and not _SOFTWARE.fullmatch(text) for text in software):
        return ApiVersionsResponse(error_code=ErrorCode.invalid_request, api_keys=())
    return advertised()
