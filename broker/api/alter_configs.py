"""AlterConfigs (key 33), versions 0–2.

Replaces all overrides of a topic or a broker with those given, so a config that is left out returns
to its default. Every value is checked first: either all configs of a resource are set, or none.

Only a few broker configs can be changed here (broker.configs.dynamic_configs); the others are set
in the configuration file.

Not here: broker loggers.
"""

from collections import Counter

import msgspec

from broker.access.authorization import Authorization, Rights
from broker.admin.broker_configs import BrokerConfigAdmin
from broker.admin.topics import TopicAdmin
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from wire.messages.describe_configs import ResourceType


class Needs(msgspec.Struct, frozen=True):
    topics: TopicAdmin
    broker_configs: BrokerConfigAdmin
    authorization: Authorization


async def handle(
    needs: Needs, request: AlterConfigsRequest, caller: Caller
) -> AlterConfigsResponse:
    rights = needs.authorization.of(caller)
    name_counts = Counter(
        (resource.resource_type, resource.resource_name) for resource in request.resources
    )

    async def alter(resource: AlterConfigsResource) -> AlterConfigsResourceResponse:
        try:
            check_rights(rights, resource.resource_type, resource.resource_name)
            check_resource(resource.resource_type, resource.resource_name, name_counts)
            is_topic = resource.resource_type == ResourceType.TOPIC
            admin = needs.topics if is_topic else needs.broker_configs
            await admin.set_configs(
                resource.resource_name, _overrides(resource), validate_only=request.validate_only
            )
        except ApiError as error:
            return AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        return AlterConfigsResourceResponse(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )

    return AlterConfigsResponse(
        responses=tuple([await alter(resource) for resource in request.resources])
    )


def check_rights(rights: Rights, resource_type: int, name: str) -> None:
    """Raises ApiError unless the client may alter the configs of the resource. Ignores resource
    types without configs."""
    if resource_type == ResourceType.BROKER:
        rights.check_cluster(Operation.ALTER_CONFIGS)
    elif resource_type == ResourceType.TOPIC:
        rights.check_topic(Operation.ALTER_CONFIGS, name)


def check_resource(resource_type: int, name: str, times: Counter[tuple[int, str]]) -> None:
    """Raises ApiError if the resource has no configs that can be altered, or the request names it
    twice."""
    if resource_type not in {ResourceType.BROKER, ResourceType.TOPIC}:
        raise ApiError(
            ErrorCode.invalid_request,
            f"resource type {resource_type} has no configs: only topics (2) and brokers (4) have",
        )
    if times[resource_type, name] > 1:
        raise ApiError(ErrorCode.invalid_request, "Duplicate resource in request.")


def _overrides(resource: AlterConfigsResource) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for config in resource.configs:
        if config.value is None:
            raise ApiError(
                ErrorCode.invalid_request, f"Null value not supported for {config.name[:100]}"
            )
        if config.name in overrides:
            raise ApiError(ErrorCode.invalid_request, f"{config.name[:100]} is set twice")
        overrides[config.name] = config.value
    return overrides
