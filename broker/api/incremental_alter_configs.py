"""IncrementalAlterConfigs (key 44), versions 0–1.

Sets, unsets, extends or shortens single configs of a topic or a broker; the others stay. The result
is checked as a whole: either all changes of a resource are made, or none.

Only a few broker configs can be changed here (broker.configs.dynamic_configs); the others are set
in the configuration file.

Not here: broker loggers.
"""

from collections import Counter

import msgspec

from broker.access.authorization import Authorization
from broker.admin.broker_configs import BrokerConfigAdmin
from broker.admin.topics import TopicAdmin
from broker.api.alter_configs import check_resource, check_rights
from broker.configs.topic_config import ConfigChange
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.errors import ErrorCode
from wire.messages.describe_configs import ResourceType
from wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class Needs(msgspec.Struct, frozen=True):
    topics: TopicAdmin
    broker_configs: BrokerConfigAdmin
    authorization: Authorization


async def handle(
    needs: Needs, request: IncrementalAlterConfigsRequest, caller: Caller
) -> IncrementalAlterConfigsResponse:
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
            await admin.change_configs(
                resource.resource_name, _changes(resource), validate_only=request.validate_only
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

    return IncrementalAlterConfigsResponse(
        responses=tuple([await alter(resource) for resource in request.resources])
    )


def _changes(resource: AlterConfigsResource) -> list[ConfigChange]:
    name_counts = Counter(config.name for config in resource.configs)
    if repeated_names := [name for name, count in name_counts.items() if count > 1]:
        raise ApiError(ErrorCode.invalid_request, f"{repeated_names[0][:100]} is changed twice")
    changes = []
    for config in resource.configs:
        try:
            operation = ConfigOperation(config.config_operation)
        except ValueError:
            raise ApiError(
                ErrorCode.invalid_request,
                f"unknown operation {config.config_operation} on {config.name[:100]}",
            ) from None
        changes.append(ConfigChange(config.name, operation, config.value))
    return changes
