"""ApiVersions (key 18), versions 0–4.

What clients may ask, as the table has it (table.py). Produce is listed from version 0, although
versions below 3 are refused: librdkafka would not compress otherwise. A client's name and version
(from version 3) must be printable as Kafka wants them; they are used for nothing else.

Not here: requests of a version that is not served. The dispatch answers those in version 0, with
this same table, before anything is decoded. Features: there are none.
"""

import re

from broker.caller import Caller
from wire.errors import ErrorCode
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(
    listed: tuple[ApiVersion, ...], request: ApiVersionsRequest, _caller: Caller
) -> ApiVersionsResponse:
    software = (request.client_software_name, request.client_software_version)
    if any(text and not _SOFTWARE.fullmatch(text) for text in software):
        return ApiVersionsResponse(error_code=ErrorCode.invalid_request, api_keys=())
    return ApiVersionsResponse(api_keys=listed)
