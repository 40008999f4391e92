"""FindCoordinator (key 10): which broker coordinates a consumer group or a transactional producer.

Listed also because librdkafka compresses with lz4 only where version 0 of it is served.
Left out: nothing. Up to version 3 a request asks for one key, from version 4 for several.
"""

from dataclasses import dataclass

from wire.codec import Api
from wire.errors import ErrorCode

GROUP = 0
TRANSACTION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    key: str = ""
    key_type: int = GROUP
    coordinator_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
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
