"""SaslAuthenticate (key 36), versions 0–2: one step of a login by the chosen mechanism."""

from broker.connections.caller import Caller
from broker.connections.login_gate import GateError
from wire.errors import ErrorCode
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

_NO_LOGINS = "this listener has no logins"


async def handle(
    _nothing: None, request: SaslAuthenticateRequest, caller: Caller
) -> SaslAuthenticateResponse:
    if caller.gate is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.illegal_sasl_state, error_message=_NO_LOGINS
        )
    try:
        answer, lifetime = await caller.gate.step(request.auth_bytes)
    except GateError as error:
        return SaslAuthenticateResponse(error_code=error.code, error_message=str(error))
    return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime=lifetime)
