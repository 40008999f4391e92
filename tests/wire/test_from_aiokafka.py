"""Little of aiokafka is imported, and it is whole for whoever wants more of it."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
ALONE = """\
import sys
import wire.records
loaded = {"asyncio", "aiokafka", "aiokafka.client"} & sys.modules.keys()
assert not loaded, loaded
"""
THEN = """\
import wire.records
import aiokafka, aiokafka.record
from aiokafka.errors import CorruptRecordException
assert aiokafka.AIOKafkaProducer and aiokafka.record.MemoryRecords
assert CorruptRecordException is wire.records.CorruptRecordException
"""


@pytest.mark.not_quick("starts a process")
@pytest.mark.parametrize("code", [ALONE, THEN, ALONE + THEN, "import aiokafka\n" + THEN])
def test_its_client_is_left_out_until_it_is_wanted(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
