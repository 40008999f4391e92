"""FindCoordinator (key 10): returns the coordinator of a consumer group or transactional producer.

librdkafka compresses with lz4 only if version 0 of it is supported. Up to version 3 a request has
one key, from version 4 several.
"""

from msgspec import Struct

from wire.errors import ErrorCode
from wire.framing.codec import Api

GROUP = 0
TRANSACTION = 1


class FindCoordinatorRequest(Struct, frozen=True, kw_only=True, gc=False):
    key: str = ""
    key_type: int = GROUP
    coordinator_keys: tuple[str, ...] = ()


class Coordinator(Struct, frozen=True, kw_only=True, gc=False):
    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class FindCoordinatorResponse(Struct, frozen=True, kw_only=True, gc=False):
    throttle_time: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1
    coordinators: tuple[Coordinator, ...] = ()


API = Api(
    key=10,
    name="FindCoordinator",
    versions=range(5),
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
)
