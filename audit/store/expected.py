"""Who is expected to ship to a topic, and up to when everything of theirs is acknowledged.

As ledger/agents.py has it: a topic that an agent has not named again is waited for, but only for
`LEFT_MILLIS` in which the agent was heard; a host that was retired is not expected to say anything
of later times, until it is heard of again. A host of the inventory that names no topics and was
never heard is expected to ship to any, from the time on at which it came into the inventory.
"""

import sqlite3
from typing import Final

from audit.picture import Agent, TopicKey
from ledger.agents import LEFT_MILLIS

UNTIL: Final = """
CASE WHEN all_seq > said_seq AND all_seq >= first_named THEN all_until ELSE until END
"""
_AGENTS: Final = f"""
SELECT journals.journal, coalesce(text, ''), {UNTIL}, heard FROM agent_topics
    JOIN agents USING (journal) JOIN journals ON journals.id = agent_topics.journal
    LEFT JOIN names ON names.id = agents.host
    WHERE agent_topics.name = ?1 AND heard >= ?2
    AND (last_named >= named_seq OR heard - agent_topics.last_time < {LEFT_MILLIS})
    ORDER BY journals.journal
"""  # noqa: S608
_NEVER: Final = """
SELECT host, min(since) FROM (
SELECT host, since FROM inventory WHERE topic = ?1 AND host NOT IN (
    SELECT text FROM agent_topics JOIN agents USING (journal) JOIN names ON names.id = agents.host
    WHERE agent_topics.name = ?2)
UNION SELECT host, since FROM inventory WHERE topic = '' AND host NOT IN (
    SELECT text FROM agents JOIN names ON names.id = agents.host)
) GROUP BY host ORDER BY host
"""
_RENEWED: Final = """
SELECT text FROM agent_topics JOIN agents USING (journal) JOIN names ON names.id = agents.host
    WHERE name = ? GROUP BY text HAVING count(*) > 1
"""


def expected_agents(
    connection: sqlite3.Connection, key: TopicKey, name: int, now: int, expected_millis: int
) -> list[Agent]:
    retired = Retired(connection, key.cluster)
    rows = connection.execute(_AGENTS, (name, now - expected_millis))
    found = [
        Agent(agent, host, until, heard, retired.until(host, agent, heard))
        for agent, host, until, heard in rows
    ]
    found += [
        Agent("", host, since, 0, retired.until(host, "", 0))
        for host, since in connection.execute(_NEVER, (key.topic, name))
    ]
    return found


def renewed_hosts(connection: sqlite3.Connection, name: int) -> frozenset[str]:
    """Of which more than one agent has shipped to a topic: each but the last had its data directory
    deleted."""
    rows = connection.execute(_RENEWED, (name,))
    return frozenset(host for (host,) in rows)


class Retired:
    """Hosts that were taken out of service, and their agents."""

    def __init__(self, connection: sqlite3.Connection, cluster: str) -> None:
        self.by_host: dict[tuple[str, str], tuple[int, int, str]] = {}
        for host, agent, since, time, reason in connection.execute(
            "SELECT host, agent, since, time, reason FROM retired WHERE cluster = ?"
            " ORDER BY time, since",
            (cluster,),
        ):
            self.by_host[host, agent] = since, time, reason

    def until(self, host: str, agent: str, heard: int) -> int | None:
        """Up to when something is expected; None if there is no such time."""
        said = self.statement(host, agent, heard)
        return min(since for since, _ in said) if said else None

    def statement(self, host: str, agent: str, heard: int) -> list[tuple[int, str]]:
        """Since when, and why, as long as nothing was heard afterwards."""
        if not self.by_host:
            return []
        found = {self.by_host.get((host, "")), self.by_host.get((host, agent))}
        return [(each[0], each[2]) for each in found if each and each[1] >= heard]
