"""SaslHandshake (key 17), version 1: by which mechanism a client will log in.

Not here: version 0, after which tokens went without Kafka's frames. Clients older than 2017 speak
nothing else. It is listed all the same: older librdkafka would not log in otherwise, by version 1.
"""

from broker.caller import Caller
from broker.gate import GateError
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
