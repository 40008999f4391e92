"""Asks the audit over HTTP to sign certificates, and for the heads files that these name.

One request is about several consecutive certificates of a table. What waits only for reports that
are on their way, such as those of this load, is asked again for a few seconds, and for half a
minute over all tables of a load, so that a ledger that lags does not hold up loads. After a failed
connection or an answer that does not fit, the audit is not asked again in this load, which goes on
without: a load never fails for a certificate.

A heads file is written before the manifest whose certificates name it, once for all tables of a
load. One that nothing names, because the load was killed, stays and does no harm.
"""

import logging
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from client.connection.connection import SOFTWARE_VERSION
from ground.http.client import HttpClient, HttpError, parse_program_url
from ground.http.security import HttpSecurity, access_to
from ground.known_types import known_type
from ground.printable import plain_words
from ground.signatures.envelopes import Envelope
from ground.signatures.keys import PublicKey, SigningKey
from ledger.certificate_requests import (
    HEADS_PATH,
    MOST_BYTES,
    MOST_HOURS,
    PATH,
    Answers,
    BadAnswer,
    Draft,
    Request,
    accepted,
)
from ledger.heads_files import MOST_BYTES as MOST_HEADS_BYTES
from ledger.heads_files import sha256_of
from ledger.hour_certificates import HeadsFile, digest_of
from loader.errors import StoreError
from loader.store.store import Store
from loader.values.tables import Hour

PATIENCE_S: Final = 10.0  # for reports on their way
MOST_PATIENCE_S: Final = 30.0  # of a load
_AGAIN_S: Final = 0.25
_SECONDS: Final = 10.0  # timeout of an answer
_SECONDS_AN_HOUR: Final = 2.0
_MOST_ANSWER: Final = 2 * MOST_BYTES
_MOST_LETTERS: Final = 1_000
_OK: Final = 200
_HEADS_SECONDS: Final = 60.0
_GZIP: Final = 16 + zlib.MAX_WBITS
_HEADERS: Final = {"Accept": "application/json", "Content-Type": "application/json"}

log = logging.getLogger(__name__)


class Chain(msgspec.Struct):
    """The table that certificates are about, and where its chain ends."""

    cluster: str
    table: str
    destination: str
    number: int  # of the next certificate
    previous: str | None  # the digest of the last one


class Signed(msgspec.Struct):
    """The certificates that the audit has signed, in the order of their numbers, and the reasons
    why others were not."""

    envelopes: list[tuple[Hour, Envelope]] = []
    refused: dict[Hour, str] = {}


class _Problem(msgspec.Struct, frozen=True):
    error: str


class _Failed(Exception):
    """The error of a request; its text continues `the audit at …, which`."""


class CertifyingAudit:
    """The client for certificates, and the key with which the loader signs them. May be used by any
    thread."""

    def __init__(
        self,
        url: str,
        key: SigningKey,
        *,
        security: HttpSecurity = HttpSecurity(),  # noqa: B008 -- it is a value
        audit_key: PublicKey | None = None,
        stopping: threading.Event | None = None,
        patience: float = PATIENCE_S,
    ) -> None:
        self.key = key
        self._url = parse_program_url(url)
        self._access = access_to(security)
        self._audit_key = audit_key
        self._stopping = stopping or threading.Event()
        self._patience = patience
        self._waited = 0.0  # seconds, over all tables
        self._away = ""  # why the audit is not asked any more
        self._kept_heads: set[str] = set()  # digests of files that are in the store
        self._keeping_heads = threading.Lock()

    def keep_heads(self, store: Store, heads: HeadsFile) -> str:
        """Writes a heads file unless it is there. Returns why it could not; empty if it could."""
        with self._keeping_heads:
            if heads.sha256 in self._kept_heads:
                return ""
            try:
                if store.size(heads.path) is None:
                    content = self._heads_file(heads.sha256)
                    if not store.create(heads.path, content):
                        raise _Failed("named a heads file whose path has other content")
            except _Failed as error:
                return f"the audit at {self._url}, which {error}"
            except StoreError as error:
                return f"the heads file {heads.path} cannot be written: {error}"
            self._kept_heads.add(heads.sha256)
            return ""

    def _heads_file(self, sha256: str) -> bytes:
        """Returns the content of a heads file. Raises _Failed."""
        with HttpClient(self._url, access=self._access, most_bytes=MOST_HEADS_BYTES) as client:
            try:
                answer = client.ask("GET", f"{HEADS_PATH}{sha256}", within=_HEADS_SECONDS)
            except HttpError as error:
                raise _Failed(f"could not be asked for heads ({error.why})") from None
        if answer.status != _OK:
            raise _Failed(f"answered HTTP {answer.status} about heads{_reason(answer.body)}")
        try:
            unpacking = zlib.decompressobj(_GZIP)
            content = unpacking.decompress(answer.body, MOST_HEADS_BYTES)
        except zlib.error:
            content = b""
        if sha256_of(content) != sha256:
            raise _Failed("answered with another heads file than it has named")
        return content

    def sign(self, chain: Chain, drafts: Sequence[Draft]) -> Signed:
        """Asks for certificates of these hours."""
        signed = Signed()
        deadline = time.monotonic() + self._patience
        with HttpClient(self._url, access=self._access, most_bytes=_MOST_ANSWER) as client:
            while True:
                waiting: list[Draft] = []
                for part in _parts(drafts):
                    waiting += self._ask(client, chain, part, signed)
                is_over = time.monotonic() >= deadline or self._waited >= MOST_PATIENCE_S
                if not waiting or is_over or self._stopping.wait(_AGAIN_S):
                    return signed
                self._waited += _AGAIN_S
                drafts = waiting

    def _ask(
        self, client: HttpClient, chain: Chain, part: Sequence[Draft], signed: Signed
    ) -> list[Draft]:
        """Adds the certificates to `signed` and `chain`. Returns the drafts to ask about again."""
        if self._away:
            signed.refused |= {Hour(draft.hour): self._away for draft in part}
            return []
        request = Request(
            cluster=chain.cluster,
            table=chain.table,
            destination=chain.destination,
            version=SOFTWARE_VERSION,
            number=chain.number,
            previous=chain.previous,
            hours=tuple(part),
        )
        try:
            answers = self._answers(client, request)
            envelopes = list(accepted(request, answers, self._audit_key))
        except (_Failed, BadAnswer) as error:
            which = f"the answer {error}" if isinstance(error, BadAnswer) else f"which {error}"
            self._away = f"the audit at {self._url}, {which}"
            log.warning("no further certificates in this load: %s", self._away)
            signed.refused |= {Hour(draft.hour): self._away for draft in part}
            return []
        for draft, envelope in envelopes:
            signed.envelopes.append((Hour(draft.hour), envelope))
            signed.refused.pop(Hour(draft.hour), None)
            chain.number, chain.previous = chain.number + 1, digest_of(envelope.payload)
        waiting = []
        for draft, answer in zip(part, answers.hours, strict=True):
            if answer.refused:
                signed.refused[Hour(draft.hour)] = plain_words(answer.refused[:_MOST_LETTERS])
                waiting += [draft] if answer.soon else []
        return waiting

    def _answers(self, client: HttpClient, request: Request) -> Answers:
        """Raises _Failed."""
        within = _SECONDS + _SECONDS_AN_HOUR * len(request.hours)
        body = msgspec.json.encode(request)
        try:
            answer = client.ask("POST", PATH, body, within=within, headers=_HEADERS)
        except HttpError as error:
            raise _Failed(f"could not be asked ({error.why})") from None
        if answer.status != _OK:
            raise _Failed(f"answered HTTP {answer.status}{_reason(answer.body)}")
        try:
            return msgspec.json.decode(answer.body, type=known_type(Answers))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise _Failed("did not answer like an audit that signs certificates") from None


def _parts(drafts: Sequence[Draft]) -> Iterator[list[Draft]]:
    """The drafts of each request, which is limited in hours and bytes."""
    part: list[Draft] = []
    size = 0
    for draft in drafts:
        draft_bytes = len(msgspec.json.encode(draft))
        if part and (len(part) >= MOST_HOURS or size + draft_bytes > MOST_BYTES // 2):
            yield part
            part, size = [], 0
        part.append(draft)
        size += draft_bytes
    if part:
        yield part


def _reason(body: bytes) -> str:
    """The reason in an error answer, if it has one."""
    try:
        reason = msgspec.json.decode(body, type=known_type(_Problem)).error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
    return f": {plain_words(reason[:_MOST_LETTERS])}"
