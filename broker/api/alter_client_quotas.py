"""AlterClientQuotas (key 49), versions 0–1: sets the quotas of users, client ids and addresses."""

import msgspec

from broker.access.authorization import Authorization, Rights
from broker.admin.quotas import QuotaAdmin, check_changes, checked_entity
from broker.connections.caller import Caller
from broker.errors import ApiError
from wire.acls import Operation
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredData,
    EntryData,
)


class Needs(msgspec.Struct, frozen=True):
    quotas: QuotaAdmin
    authorization: Authorization


async def handle(
    needs: Needs, request: AlterClientQuotasRequest, caller: Caller
) -> AlterClientQuotasResponse:
    rights = needs.authorization.of(caller)
    return AlterClientQuotasResponse(
        entries=tuple(
            [
                await _alter_entry(needs.quotas, rights, entry, only_checks=request.validate_only)
                for entry in request.entries
            ]
        )
    )


async def _alter_entry(
    quotas: QuotaAdmin, rights: Rights, entry: EntryData, *, only_checks: bool
) -> AlteredData:
    try:
        rights.check_cluster(Operation.ALTER_CONFIGS)
        entity = checked_entity([(part.entity_type, part.entity_name) for part in entry.entity])
        changes = {op.key: None if op.remove else op.value for op in entry.ops}
        check_changes(entity, changes)
        if not only_checks:
            await quotas.alter(entity, changes)
    except ApiError as error:
        return AlteredData(error_code=error.code, error_message=str(error), entity=entry.entity)
    return AlteredData(entity=entry.entity)
