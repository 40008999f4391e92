"""Texts for refusals by a broker of either side, with the missing permission, if any. Pure."""

from client.rights import Right, on_topic
from wire.acls import Operation, ResourceType
from wire.errors import ErrorCode
from wire.mirrored import MIRROR_ID


def refusal_text(
    code: ErrorCode, who: str, topic: str, *operations: Operation, message: str | None = None
) -> str:
    """The text for a refusal. `who` made the request, and needs one of the operations on the
    topic."""
    if code is ErrorCode.topic_authorization_failed:
        return f"not allowed: {on_topic(who, topic, *operations)}"
    if code is ErrorCode.transactional_id_authorization_failed:
        right = Right(who, (Operation.WRITE,), ResourceType.TRANSACTIONAL_ID, MIRROR_ID)
        return f"not allowed: {right}"
    return message or code.name.replace("_", " ")
