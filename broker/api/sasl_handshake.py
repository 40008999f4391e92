"""SaslHandshake (key 17), version 1: chooses the mechanism of a client's login.

Not here: version 0, after which tokens are sent without Kafka's frames; only clients from before
2017 need it. It is listed all the same: older librdkafka would otherwise not log in with version 1.
"""

from broker.connections.caller import Caller
from broker.connections.login_gate import GateError
from wire.errors import ErrorCode
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_nothing: None, request: SaslHandshakeRequest, caller: Caller) -> SaslHandshakeResponse:
    gate = caller.gate
    if gate is None:
        return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state)
    try:
        gate.begin(request.mechanism)
    except GateError as error:
        return SaslHandshakeResponse(error_code=error.code, mechanisms=gate.mechanisms)
    return SaslHandshakeResponse(mechanisms=gate.mechanisms)
