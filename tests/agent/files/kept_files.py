"""An agent's files beside a store that keeps what it has open."""

from penstock.up.descriptor_store import ProgramDescriptors
from tests.agent.files.journalled_files import JournalledFiles


def turns(files: JournalledFiles, count: int = 6) -> None:
    for _ in range(count):
        files.turn(0.3)


def kept_files(store: ProgramDescriptors) -> list[str]:
    return [name for name in store.kept() if not name.endswith((".events", ".history"))]
