"""Does to brokers, coordinators, members and the topic what a script says, and brings everything
back."""

import random
from collections.abc import Callable
from typing import Final

from harness.broker_cluster import BrokerCluster
from tests.cluster_history import nemesis
from tests.cluster_history.history import History
from tests.cluster_history.script import Action, Script
from tests.group_history import requests
from tests.group_history.growth import Growth
from tests.group_history.members import Members
from tests.group_history.script import groups_of
from tests.system.raw import Closed, RawConnection

_AT_LEAST: Final = 2  # members of each group when all is brought back


class Nemesis(nemesis.Nemesis):
    def __init__(  # noqa: PLR0917  each is another part
        self,
        cluster: BrokerCluster,
        members: Members,
        growth: Growth,
        history: History,
        script: Script,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(cluster, {}, history, None, script, "", 0, say)
        self._members, self._growth = members, growth
        self._groups = groups_of(script.actions)

    def bring_back(self) -> None:
        self._members.thaw_all()
        super().bring_back()
        for group in self._groups:
            for number in range(1, _AT_LEAST + 1):
                self._members.begin(f"{group}-{number}")

    def _act(self, action: Action, chance: random.Random) -> None:
        members = self._members
        members.check()
        match action.verb, action.words:
            case "begin", [name]:
                members.begin(name)
            case "leave", [name]:
                members.leave(name)
            case "kill-member", [name]:
                members.kill(name)
            case "freeze-member", [name]:
                members.freeze(name)
            case "thaw-member", [name]:
                members.thaw(name)
            case ("kill-coordinator" | "stop-coordinator" | "freeze-coordinator") as verb, [group]:
                broker = coordinator(self._cluster, group)
                if broker:
                    ends = Action(verb.removesuffix("-coordinator"), (str(broker),))
                    super()._act(ends, chance)
            case "grow", _:
                self._growth.grow()
            case "thaw-brokers", _:
                for broker in self._cluster.ids:
                    self._cluster.thaw(broker)
            case _:
                super()._act(action, chance)


def coordinator(cluster: BrokerCluster, group: str) -> int:
    """By the first broker that answers; 0 if none does, or none is known."""
    by_address = {cluster.to_clients[each].address: each for each in cluster.ids}
    for broker in cluster.ids:
        if not cluster.alive(broker) or cluster.is_frozen(broker):
            continue
        try:
            with RawConnection(cluster.to_clients[broker].address) as connection:
                found = requests.find_coordinator(connection, group)
        except (OSError, Closed):
            continue
        if found is not None:
            return by_address[found]
    return 0
