"""`python -m tests.system.groups.registry_member BOOTSTRAP GROUP PORT`: a member of a group of
schema registries, as Confluent's are that elect one of them by Kafka's protocol for groups.

The protocol's type is `sr`, its one way to assign `v0`. Each member says in JSON where it serves
and whether it leads. The group's leader, which need not be the registry that leads, tells all the
same: who leads is who did before, or else the one with the least URL. Each time the member says in
a line of JSON what it was told. It leaves at SIGTERM.
"""

import json
import signal
import sys
import threading
import warnings
from contextlib import closing
from typing import Any

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka
    from kafka.coordinator.base import BaseCoordinator
    from kafka.errors import KafkaError

_DUPLICATE_URLS = 1


class RegistryMember(BaseCoordinator):
    """`told` is the last assignment; `said` what it says of itself."""

    def __init__(self, client: Any, group: str, port: int, **settings: Any) -> None:
        super().__init__(client, group_id=group, **settings)
        self.told: dict[str, Any] | None = None
        self._where = {"host": "127.0.0.1", "port": port, "scheme": "http"}

    @property
    def said(self) -> dict[str, Any]:
        leads = (
            self.told is not None and self.told["master_identity"]["port"] == self._where["port"]
        )
        return {"version": 1, **self._where, "master_eligibility": True, "leader": leads}

    def protocol_type(self) -> str:
        return "sr"

    def group_protocols(self) -> list[tuple[str, bytes]]:
        return [("v0", json.dumps(self.said).encode())]

    def _perform_assignment(self, leader_id: str, protocol: str, members: Any) -> dict[str, bytes]:
        known = {each.member_id: json.loads(bytes(each.metadata)) for each in members}
        urls = {who: f"http://{each['host']}:{each['port']}" for who, each in known.items()}
        leading = [who for who, each in known.items() if each["leader"]]
        leader = leading[0] if len(leading) == 1 else min(urls, key=urls.__getitem__)
        told = {
            "version": 1,
            "error": 0 if len(set(urls.values())) == len(urls) else _DUPLICATE_URLS,
            "master": leader,
            "master_identity": known[leader],
        }
        return dict.fromkeys(known, json.dumps(told).encode())

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        self.told = json.loads(bytes(member_assignment_bytes))
        print(json.dumps(self.told), flush=True)


def main(bootstrap: str, group: str, port: str) -> None:
    end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    # A consumer without a group has the connections that a member needs.
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    with closing(consumer):
        settings = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}
        version = consumer.config["api_version"]
        member = RegistryMember(consumer._client, group, int(port), api_version=version, **settings)
        with closing(member):
            while not end.wait(0.1):
                try:
                    if member.need_rejoin():
                        member.ensure_active_group()
                    member.poll_heartbeat()
                except KafkaError as error:
                    print(error, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
