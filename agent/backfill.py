"""The plan of a backfill by the data directory of an agent that does not run. Only reads."""

import time
from collections.abc import Sequence
from pathlib import Path

from agent.configuration.config import AgentConfig
from agent.configuration.file_inputs import ARCHIVES_FILE, FileInput, read_inputs
from agent.configuration.inputs import Input
from agent.errors import JournalError
from agent.files.archive_states import plan_without_agent
from agent.files.backfill_plan import BackfillPlan
from agent.journal import generations
from agent.journal.recovery import recover


def plans_without_agent(config: AgentConfig, inputs: Sequence[Input]) -> list[BackfillPlan]:
    """The plan of each input. Raises JournalError if the data directory cannot be read."""
    directory, wall = Path(config.data_dir), time.time()
    now_millis = int(wall * 1000)
    try:
        files = generations.found(directory) if directory.exists() else {}
        sources = recover(tuple(files.items()), ledger=False).contents.sources() if files else ()
    except OSError as error:
        raise JournalError(f"cannot read {directory}: {error.strerror or error}") from error
    since = read_inputs(directory) or {}
    archives_since = read_inputs(directory, ARCHIVES_FILE) or {}
    return [
        plan_without_agent(
            FileInput.of(input_, config.data_dir),
            sources,
            since.get(input_.label, now_millis),
            archives_since.get(input_.label, now_millis),
            wall,
        )
        for input_ in inputs
    ]
