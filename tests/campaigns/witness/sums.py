"""Rule `sums`: what a verdict shows in several places is the same, and these are the rows. Pure."""

from collections.abc import Iterator, Sequence

from tests.campaigns.witness.objections import Objection
from tests.campaigns.witness.truth import Truth
from tests.campaigns.witness.verdict import Called, Seen, Verdict


def sums(
    truth: Truth, seen: Seen, verdict: Verdict, called: Sequence[Called]
) -> Iterator[Objection]:
    """Of those findings that nobody has accepted."""
    flow = verdict.flow
    if flow and flow.get("lost", 0) >= 0:
        parts = sum(flow.get(name, 0) for name in ("shipped", "filtered", "dead", "lost"))
        if flow.get("read", 0) != parts:
            yield Objection("sums", f"read {flow.get('read')}, and its parts are {parts}")
    missing = [each for each in called if each.kind in {"missing", "unnamed"}]
    counts = [each.events if each.events >= 0 else each.offsets for each in missing]
    if all(count >= 0 for count in counts):
        named = sum(counts)
        if named != verdict.missing and not any("too" in each.words for each in missing):
            yield Objection("sums", f"missing {verdict.missing}, findings add up to {named}")
        of_hosts = sum(each.events for each in missing if each.host and each.events >= 0)
        if of_hosts != verdict.hosts_missing:
            said = f"findings name {of_hosts} of hosts, the hosts miss {verdict.hosts_missing}"
            yield Objection("sums", said)
    if not truth.landed and verdict.landed_events not in {-1, len(seen.rows)}:
        said = f"{verdict.landed_events} events at hdfs, and {len(seen.rows)} rows"
        yield Objection("sums", said)
    if (
        verdict.state in {"missing", "unknown"}
        and verdict.host_states
        and (set(verdict.host_states) == {"complete"} and any(each.host for each in called))
    ):
        yield Objection("sums", f"{verdict.state}, and each host of it is complete")
