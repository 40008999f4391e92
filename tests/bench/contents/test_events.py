"""Events of the loader's benchmark. That they are decoded and each is one row: the benchmark."""

import pytest

from bench.contents.events import BATCH, finished_batch
from wire.record_batches.batch import check_batch
from wire.record_batches.records import records


@pytest.mark.not_quick("very many events")
def test_an_event_takes_about_200_bytes_and_is_like_no_other() -> None:
    bodies: set[bytes] = set()
    for source in range(2):
        data = finished_batch(source, 70_000, 0, BATCH)
        check_batch(memoryview(data))
        values = [record.value or b"" for record in records(data)]
        assert sum(map(len, values)) / BATCH == pytest.approx(200, abs=3)
        bodies.update(value[-150:] for value in values)  # without the header
    assert len(bodies) == 2 * BATCH
