"""Signed tokens of a test's own issuer, and the key file with which a broker verifies them."""

import json
import time
from pathlib import Path
from typing import Any, Final

from joserfc import jwt
from joserfc.jwk import RSAKey

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "brokers"


class TokenIssuer:
    """An issuer of tokens with one key, whose public part is in `keys_file`."""

    def __init__(self, directory: Path) -> None:
        self._key = RSAKey.generate_key(2048, {"kid": "a key"})
        keys = {"keys": [self._key.as_dict(private=False)]}
        self.keys_file = private_file(directory / "keys.json", json.dumps(keys))

    def token(self, user: str, *, seconds: float = 3600, **claims: Any) -> str:
        """Returns a token that the broker accepts."""
        ends = time.time() + seconds
        all_claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "exp": ends, **claims}
        return jwt.encode({"alg": "RS256", "kid": "a key"}, all_claims, self._key)


def private_file(path: Path, content: str) -> str:
    path.write_text(content + "\n")
    path.chmod(0o600)
    return str(path)
