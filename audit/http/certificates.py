"""Handles `POST /api/v1/certificates`: judges hours for a loader, and signs their certificates
(ledger/certificate_requests.py). `GET /api/v1/certificates/heads/{sha256}` returns the heads files
that these name.

The handler changes nothing: the path takes POST because requests are long, and every user who may
read may send one. A certificate counts only with the loader's signature beside the audit's. One
thread judges; a request that finds too many waiting gets 503.
"""

import asyncio
from concurrent.futures import Executor
from typing import Final

import msgspec

from audit.errors import BadQuery, NotNow, Unknown
from audit.http.endpoints.hours import forgotten
from audit.http.endpoints.topic_lookup import key_of, picture
from audit.http.heads_files import HeadsFiles
from audit.http.responses import GZIP, PageAnswer
from audit.reconciling.certified_hours import Uncertified, certified_hour
from audit.reconciling.picture import TopicKey
from audit.service.service import Service, now_millis
from audit.store.judged_hours import HOUR
from ground.known_types import known_type
from ground.signatures.keys import SigningKey
from ledger.certificate_requests import (
    MOST_HOURS,
    Answer,
    Answers,
    Draft,
    Judgement,
    Request,
    certificate_of,
    judgement_in,
    same_rows_before,
    time_text,
)
from ledger.hour_certificates import digest_of, envelope_of

THREADS: Final = 1

_MOST_WAITING: Final = 16


class Certificates:
    """The handler of requests for certificates. Belongs to the server's event loop; `executor`
    judges."""

    def __init__(self, service: Service, executor: Executor, version: str) -> None:
        self._service = service
        self._executor = executor
        self._version = version
        self._heads_files = HeadsFiles(service)
        self._waiting = 0

    def heads_file(self, sha256: str) -> PageAnswer:
        """Returns a heads file, packed with gzip. Raises Unknown."""
        packed = self._heads_files.packed(sha256)
        if packed is None:
            raise Unknown("this heads file is not kept: ask for the certificates again")
        return PageAnswer(packed, GZIP)

    async def answer(self, body: bytes) -> PageAnswer:
        """Raises Unanswerable, StoreDamaged."""
        try:
            request = msgspec.json.decode(body, type=known_type(Request))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadQuery(f"invalid body: {error}") from None
        if not 0 < len(request.hours) <= MOST_HOURS:
            raise BadQuery(f"a request must be about 1 to {MOST_HOURS} hours")
        if any(draft.hour % HOUR for draft in request.hours):
            raise BadQuery(
                "`hour` must be the beginning of an hour, in milliseconds since 1970 UTC"
            )
        key = self._service.signing_key
        if key is None:
            raise NotNow("this audit has no signing key")
        if self._waiting >= _MOST_WAITING:
            raise NotNow("too many requests are waiting: try again in a moment")
        self._waiting += 1
        try:
            answers = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._signed, request, key
            )
            return PageAnswer(msgspec.json.encode(answers))
        finally:
            self._waiting -= 1

    def _signed(self, request: Request, key: SigningKey) -> Answers:
        number, previous = request.number, request.previous
        answers: list[Answer] = []
        for draft in request.hours:
            try:
                judgement = self._judgement(request, draft, key)
            except Uncertified as error:
                answers.append(Answer(refused=str(error), soon=error.soon))
                continue
            certificate = certificate_of(request, draft, judgement, number, previous)
            envelope = envelope_of(certificate).and_signed(key)
            answers.append(Answer(payload=envelope.payload, signature=envelope.signatures[0]))
            number, previous = number + 1, digest_of(envelope.payload)
        return Answers(key=key.public.raw, hours=tuple(answers))

    def _judgement(self, request: Request, draft: Draft, key: SigningKey) -> Judgement:
        """Raises Uncertified."""
        try:
            topic_key = key_of(self._service, request.cluster, draft.topic)
        except (Unknown, BadQuery) as error:
            raise Uncertified(str(error)) from None
        except NotNow as error:
            raise Uncertified(str(error), soon=True) from None
        if topic_key.topic_id != draft.topic_id:
            raise Uncertified("the topic was created again since the hour was loaded")
        if why_not := forgotten(self._service, topic_key.cluster, draft.hour):
            before = same_rows_before(request, draft, key.public)
            if before is None:
                raise Uncertified(why_not)
            return msgspec.structs.replace(judgement_in(before), version=self._version)
        return self._judged(request, draft, topic_key)

    def _judged(self, request: Request, draft: Draft, topic_key: TopicKey) -> Judgement:
        service, end = self._service, draft.hour + HOUR
        state = service.standing.clusters.get(topic_key.cluster)
        if state is None or not state.read:
            raise Uncertified("the audit is still reading the ledger", soon=True)
        of_hour = picture(service, topic_key, draft.hour, end)
        altered, _ = service.reading.remarks(topic_key, draft.hour, end)
        hour = certified_hour(
            of_hour,
            request.destination,
            rows=draft.rows,
            rebuilt=draft.rebuilt,
            altered=sum(total.lines for total in altered),
        )
        origin = of_hour.origin
        shipped_to = topic_key if origin is None else origin
        heads = self._heads_files.covering(
            shipped_to.cluster, shipped_to.topic, of_hour.agents, end
        )
        return Judgement(
            judged_at=time_text(now_millis()),
            counts=hour.counts,
            exceptions=hour.exceptions,
            origins=() if origin is None else (origin.cluster,),
            heads=heads,
            version=self._version,
        )
