"""ApiVersions (key 18), versions 0–4.

What clients may ask, as the table has it (table.py). Produce is listed from version 0, although
versions below 3 are refused: librdkafka would not compress otherwise. A client's name and version
(from version 3) must be printable as Kafka wants them.

librdkafka, and nobody else, is told of ConsumerGroupHeartbeat, which is then refused: a consumer of
its with `group.protocol=consumer` ends with that, and where the API is not listed asks for the
group's coordinator for ever, without a word. To others its absence says that there is none.

Not here: requests of a version that is not served. The dispatch answers those in version 0, with
this same table, before anything is decoded. Features: there are none.
"""

import re

from broker.caller import Caller
from wire.errors import ErrorCode
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_CONSUMER_GROUP_HEARTBEAT = ApiVersion(api_key=68, min_version=0, max_version=1)
_SOFTWARE = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(
    listed: tuple[ApiVersion, ...], request: ApiVersionsRequest, caller: Caller
) -> ApiVersionsResponse:
    software = (request.client_software_name, request.client_software_version)
    if any(text and not _SOFTWARE.fullmatch(text) for text in software):
        return ApiVersionsResponse(error_code=ErrorCode.invalid_request, api_keys=())
    if caller.is_librdkafka:
        listed = (*listed, _CONSUMER_GROUP_HEARTBEAT)
    return ApiVersionsResponse(api_keys=listed)
