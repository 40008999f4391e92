"""Certificates of one table's hours, within the runs that close or rewrite them, and in a run of
their own for those that are still owed.

Rule 1: an hour gets its certificate in the run that declares it complete, if the audit signs it
        then. Otherwise, or after late rows, a later load makes it, in a run that does nothing else.
Rule 2: an hour whose files are missing or damaged gets none.
Rule 3: the heads file that a certificate names is written before the manifest.
Rule 4: a complete hour with a certificate is rewritten only if the audit signs the next one: its
        rows stay provable. Without an audit in the configuration, it loses its certificate.
"""

import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from ground.signatures.envelopes import BadEnvelope, Envelope
from ledger.hour_certificates import Certificate, digest_of
from loader.certificates.audit_client import CertifyingAudit, Chain, Signed
from loader.certificates.drafts import draft_of, due_hours, is_due
from loader.certificates.issuing import next_number, with_certificates, without_certificates
from loader.commit.commit_log import Attempt, with_digests
from loader.commit.layout import CERTIFICATE, DAMAGED, hour_path, run_folder
from loader.commit.next_state import manifest_without_reading, next_run
from loader.errors import LoaderError
from loader.ledger.entries import destination_of
from loader.run.load_context import TableLoad
from loader.values.manifests import HourState, Manifest, RunKind, TopicState
from loader.values.tables import Hour

MOST_OWED: Final = 240  # hours in one load
_MOST_BYTES: Final = 64 * 1024 * 1024  # of a certificate

log = logging.getLogger(__name__)

# Commits the first manifest, which follows the second.
Commit = Callable[[Manifest, Manifest | None, Attempt], Manifest]


class TableCertificates:
    """The certificates of one table in one load."""

    def __init__(self, load: TableLoad) -> None:
        self._load = load
        self._audit = load.context.certifying

    def closed(
        self, manifest: Manifest, previous: Manifest, hours: Iterable[Hour]
    ) -> tuple[Manifest, Signed]:
        """The manifest of a run that declares these hours complete, with the digests of all files,
        and the certificates to be added to it. Raises StoreError."""
        if self._topic(manifest) is None:
            return manifest, Signed()
        manifest = with_digests(self._load.context.store, manifest)
        due = [hour for hour in hours if is_due(manifest.hours[hour])]
        return manifest, self._signed(manifest, previous, due)

    def added(self, manifest: Manifest, signed: Signed) -> Manifest:
        """The manifest with these certificates. Hours whose files were replaced lose an earlier
        one."""
        if self._audit is not None:
            manifest = with_certificates(manifest, signed.envelopes, self._audit.key)
        self._load.outcome.certified += [hour for hour, _ in signed.envelopes]
        self._load.outcome.uncertified |= signed.refused
        replaced = [
            hour
            for hour, state in manifest.hours.items()
            if state.rewritten == manifest.run != state.certified
        ]
        return without_certificates(manifest, replaced)

    def rewritten(
        self, manifest: Manifest, previous: Manifest, hours: Collection[Hour]
    ) -> Manifest:
        """The manifest of a run that only rewrites hours, of which these are replaced. Raises
        LoaderError if one would lose its certificate."""
        certified_hours = [
            hour
            for hour in hours
            if manifest.hours[hour].certificates and manifest.hours[hour].complete >= 0
        ]
        if self._topic(manifest) is None or not certified_hours:
            return self.added(manifest, Signed())
        manifest = with_digests(self._load.context.store, manifest)
        certified_hours = [hour for hour in certified_hours if is_due(manifest.hours[hour])]
        before = {
            hour: self._certificate(manifest, hour, previous.hours[hour])
            for hour in certified_hours
        }
        signed = self._signed(manifest, previous, certified_hours, before)
        for hour, reason in signed.refused.items():
            raise LoaderError(
                f"{hour_path(manifest.table, hour)} was not rewritten, since it would lose its"
                f" certificate: {reason}"
            )
        return self.added(manifest, signed)

    def make_owed(self, latest: Manifest, commit: Commit) -> Manifest:
        """Makes the certificates that hours lack, unless the audit refused them in this load.
        Returns the newest manifest. Raises LoaderError."""
        load = self._load
        if self._topic(latest) is None:
            return latest
        owed = [
            hour
            for hour in due_hours(latest, load.context.now())
            if hour not in load.outcome.uncertified
        ]
        intact = [hour for hour in owed[-MOST_OWED:] if self._is_intact(latest, hour)]
        if not intact:
            return latest
        load.doing(f"certifying {len(intact)} hours")
        signed = self._signed(latest, latest, intact)
        if not signed.envelopes:
            load.outcome.uncertified |= signed.refused
            return latest
        manifest = manifest_without_reading(
            latest,
            latest.hours,
            kind=RunKind.CLOSE,
            adds=(),
            removes=(),
            markers=(),
            now=load.context.now(),
            loader=load.context.loader,
        )
        folder = run_folder(load.name, next_run(latest), uuid.uuid4().hex)
        with Attempt(load.commit_log, folder) as attempt:
            return commit(self.added(manifest, signed), latest, attempt)

    def _topic(self, manifest: Manifest) -> TopicState | None:
        """The topic that feeds the table; None if its hours get no certificates. Events without
        header have no agents that could prove anything, and a certificate is about one topic."""
        topics = self._load.topics
        if self._audit is None or len(topics) != 1 or not manifest.header:
            return None
        return next((topic for topic in manifest.topics if topic.topic == topics[0]), None)

    def _signed(
        self,
        manifest: Manifest,
        previous: Manifest,
        hours: Collection[Hour],
        before: Mapping[Hour, bytes] = MappingProxyType({}),
    ) -> Signed:
        topic = self._topic(manifest)
        if self._audit is None or topic is None or not hours:
            return Signed()
        config = self._load.context.config
        newest = manifest.newest_certificate
        chain = Chain(
            cluster=config.cluster,
            table=manifest.table,
            destination=destination_of(previous, config),
            number=next_number(manifest),
            previous=None if newest is None else newest.digest.hex(),
        )
        drafts = [
            draft_of(
                manifest,
                hour,
                topic,
                rebuilt=_rebuilt(previous.hours.get(hour)),
                before=before.get(hour, b""),
            )
            for hour in hours
        ]
        signed = self._audit.sign(chain, drafts)
        return self._with_heads(signed, self._audit)

    def _with_heads(self, signed: Signed, audit: CertifyingAudit) -> Signed:
        """Writes the heads files that certificates name. Without them there is no certificate."""
        heads_files = {
            heads.sha256: heads
            for _, envelope in signed.envelopes
            if (heads := Certificate.decode(envelope.payload).predicate.heads) is not None
        }
        for heads in heads_files.values():
            if why := audit.keep_heads(self._load.context.store, heads):
                log.warning("no certificates of table %s: %s", self._load.name, why)
                refused = {hour: why for hour, _ in signed.envelopes}
                return Signed(refused=signed.refused | refused)
        return signed

    def _is_intact(self, latest: Manifest, hour: Hour) -> bool:
        """Whether the folder has all files of the hour, and no mark of damage."""
        state = latest.hours[hour]
        entries = self._load.context.store.list(hour_path(latest.table, hour))
        sizes = {entry.path: entry.size for entry in entries}
        is_damaged = any(entry.name == DAMAGED for entry in entries)
        total_bytes = sum(sizes.get(path, -1) for path in state.files)
        return not is_damaged and total_bytes == state.bytes and sizes.keys() >= {*state.files}

    def _certificate(self, manifest: Manifest, hour: Hour, state: HourState) -> bytes:
        """The hour's certificate; empty if it is not the one that was committed."""
        path = f"{hour_path(manifest.table, hour)}/{CERTIFICATE}"
        content = self._load.context.store.read(path, _MOST_BYTES) or b""
        try:
            payload = Envelope.decode(content).payload
        except BadEnvelope:
            return b""
        return content if digest_of(payload) == state.certificates[-1].digest.hex() else b""


def _rebuilt(state: HourState | None) -> int:
    return state.at if state is not None and state.whole else 0
