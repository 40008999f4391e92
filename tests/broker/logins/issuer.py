"""Somebody who issues tokens: keys, what they sign, and a server on loopback that shows them."""

import json
import ssl
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from harness.logins.certificates import Signed

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "brokers"
NOW: Final = 1_700_000_000.0

RSA: Final = RSAKey.generate_key(2048, {"kid": "rsa"})
OTHER_RSA: Final = RSAKey.generate_key(2048, {"kid": "rsa"})
P_256: Final = ECKey.generate_key("P-256", {"kid": "p256"})
P_384: Final = ECKey.generate_key("P-384", {"kid": "p384"})
SECRET: Final = OctKey.import_key(b"a secret that both have, 32 bytes long", {"kid": "hmac"})

Key = RSAKey | ECKey | OctKey


def claims(**changes: Any) -> dict[str, Any]:
    """Of a good token; None takes one away."""
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 600, "nbf": NOW - 1}
    return {key: value for key, value in (said | changes).items() if value is not None}


def token(
    said: dict[str, Any] | bytes | None = None,
    key: Key = RSA,
    algorithm: str = "RS256",
    **header: Any,
) -> str:
    head = {"alg": algorithm, "kid": key.kid} | header
    head = {name: value for name, value in head.items() if value is not None}
    payload = said if isinstance(said, bytes) else json.dumps(said or claims()).encode()
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    return jws.serialize_compact(head, payload, key, registry=registry)


def signed_by_hand(header: dict[str, Any]) -> str:
    """A good token, whatever is in its header; by RS256."""
    parts = (json.dumps(header).encode(), json.dumps(claims()).encode())
    said = b".".join(urlsafe_b64encode(each).rstrip(b"=") for each in parts)
    assert RSA.private_key is not None
    signature = RSA.private_key.sign(said, PKCS1v15(), SHA256())
    return f"{said.decode()}.{urlsafe_b64encode(signature).decode().rstrip('=')}"


def key_set(*keys: Key, **more: Any) -> bytes:
    shown = [each.as_dict(private=False) | more for each in keys or (RSA, P_256, P_384)]
    return json.dumps({"keys": shown}).encode()


class KeysPage:
    """A set of keys at a URL: what it answers with, and how often it was asked."""

    def __init__(self) -> None:
        self.body = key_set()
        self.status = 200
        self.asked = 0
        self.url = ""


@contextmanager
def keys_page(signed: Signed | None = None) -> Iterator[KeysPage]:
    """With a certificate, over TLS."""
    page = KeysPage()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page.asked += 1
            self.send_response(page.status)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            self.wfile.write(page.body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        page.url = f"http://127.0.0.1:{server.server_port}/keys"
        if signed is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(signed.both)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            page.url = page.url.replace("http", "https", 1)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield page
        finally:
            server.shutdown()
            thread.join()
