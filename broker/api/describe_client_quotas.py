"""DescribeClientQuotas (key 48), versions 0–1: quotas whose entities match a filter by Kafka's
rules: an entity must have every part that the filter names, and with `strict` no other.
"""

import msgspec

from broker.access.authorization import Authorization
from broker.admin.quotas import QuotaAdmin
from broker.connections.caller import Caller
from broker.errors import ApiError
from cluster.records.quotas import Entity
from wire.acls import Operation
from wire.errors import ErrorCode
from wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    QuotaMatch,
    ValueData,
)


class Needs(msgspec.Struct, frozen=True):
    quotas: QuotaAdmin
    authorization: Authorization


def handle(
    needs: Needs, request: DescribeClientQuotasRequest, caller: Caller
) -> DescribeClientQuotasResponse:
    try:
        needs.authorization.of(caller).check_cluster(Operation.DESCRIBE_CONFIGS)
    except ApiError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message, entries=None
        )
    components = {component.entity_type: component for component in request.components}
    if len(components) < len(request.components) or any(
        component.match_type not in set(QuotaMatch) for component in request.components
    ):
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.invalid_request,
            error_message="each entity type may be used once: by name, default, or any",
            entries=None,
        )
    return DescribeClientQuotasResponse(
        entries=tuple(
            EntryData(
                entity=tuple(
                    EntityData(entity_type=kind, entity_name=name) for kind, name in entity
                ),
                values=tuple(ValueData(key=key, value=value) for key, value in values.items()),
            )
            for entity, values in needs.quotas.quotas.items()
            if _matches(entity, components, strict=request.strict)
        )
    )


def _matches(entity: Entity, wanted: dict[str, ComponentData], *, strict: bool) -> bool:
    parts = dict(entity)
    if strict and parts.keys() != wanted.keys():
        return False
    return all(
        kind in parts and _name_matches(parts[kind], component)
        for kind, component in wanted.items()
    )


def _name_matches(name: str | None, component: ComponentData) -> bool:
    match component.match_type:
        case QuotaMatch.NAME:
            return name is not None and name == component.match
        case QuotaMatch.DEFAULT:
            return name is None
        case _:
            return name is not None
