"""AlterClientQuotas (key 49), versions 0–1: how much clients may have, by user, client id, address.

Not here: `controller_mutation_rate`.
"""

from broker.caller import Caller
from broker.errors import ApiError
from broker.quota_admin import QuotaAdmin, check_changes, checked_entity
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredData,
    EntryData,
)


async def handle(
    quotas: QuotaAdmin, request: AlterClientQuotasRequest, _caller: Caller
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=tuple(
            [
                await _one(quotas, entry, only_checks=request.validate_only)
                for entry in request.entries
            ]
        )
    )


async def _one(quotas: QuotaAdmin, entry: EntryData, *, only_checks: bool) -> AlteredData:
    try:
        entity = checked_entity([(each.entity_type, each.entity_name) for each in entry.entity])
        changes = {each.key: None if each.remove else each.value for each in entry.ops}
        check_changes(entity, changes)
        if not only_checks:
            await quotas.alter(entity, changes)
    except ApiError as error:
        return AlteredData(error_code=error.code, error_message=str(error), entity=entry.entity)
    return AlteredData(entity=entry.entity)
