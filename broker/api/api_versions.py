"""ApiVersions (key 18), versions 0–4.

Lists the APIs and versions of the table (table.py). Produce is listed from version 0, although
versions below 3 are rejected: librdkafka would not compress otherwise. A client's name and version
(from version 3) must be printable, as in Kafka.

ConsumerGroupHeartbeat is listed for librdkafka alone, and rejected when it is used: a consumer with
`group.protocol=consumer` then fails, whereas without the entry it would look for the group's
coordinator for ever, silently. Other clients conclude from its absence that it is not supported.

Not here: requests of a version that is not served. The dispatcher answers those in version 0, with
the same table, before anything is decoded. Features: there are none.
"""

import re

from broker.connections.caller import Caller
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
