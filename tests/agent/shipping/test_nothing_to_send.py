"""A shipper that has nothing to send waits, and does not look again and again."""

from pathlib import Path

from client.patience import NEVER
from tests.agent.shipping.agent_side import agent_side


def test_nothing_is_due_as_long_as_there_is_nothing_to_send(tmp_path: Path) -> None:
    with agent_side("127.0.0.1:9", tmp_path) as side:
        assert side.shipper._dispatch.work(now=0.0) == NEVER
