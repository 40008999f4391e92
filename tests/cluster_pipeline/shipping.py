"""When agents have shipped all that was written."""

from collections.abc import Mapping, Sequence

from harness.agent_process import AgentProcess
from harness.waiting import wait_until


def wait_shipped(
    agents: Sequence[AgentProcess], sizes: Mapping[str, int], within: float = 300
) -> None:
    """Until agents have had every byte acknowledged. `sizes`: of the files that were written to
    last, by path; of those that were rotated, agents know when they are done with them."""

    def shipped(agent: AgentProcess) -> bool:
        status = agent.status()
        if status is None:
            return False
        acknowledged.update((each["path"], each["acknowledged"]) for each in status["files"])
        return (
            status["journal"]["open_batches"] == 0
            and not any(each["lag_bytes"] for each in status["inputs"])
            and all(each["acknowledged"] == each["size"] for each in status["files"])
        )

    acknowledged: dict[str, int] = {}
    wait_until(
        lambda: (
            all(map(shipped, agents))
            and all(acknowledged.get(path, -1) >= size for path, size in sizes.items())
        ),
        within=within,
        what="agents have shipped all",
        every=0.2,
    )
