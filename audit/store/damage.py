"""Batches that are not what was written, as far as they are still in the log.

Nobody says under which leader epoch such a batch was written. When it was last found tells: damage
that was found before the log was cut there has gone with the rest, which is missing, or had landed
before; whoever is given its offsets next has nothing to do with it.
"""

import sqlite3
from typing import Final

from audit.picture import Damage
from audit.store.generations import Generations

_MOST: Final = 10_000
_DAMAGED: Final = """
SELECT partition, first, first + count, min(reason), min(time), max(damaged.last)
    FROM damaged JOIN topics USING (name)
    WHERE topics.id = ? AND damaged.topic_id IN ('', topics.topic_id)
    GROUP BY partition, first, count LIMIT ?
"""


def of(connection: sqlite3.Connection, topic: int, generations: Generations) -> list[Damage]:
    return [
        Damage(partition, begin, end - begin, reason, time, time + 1)
        for partition, first, after, reason, time, last in connection.execute(
            _DAMAGED, (topic, _MOST)
        )
        for begin, end in generations.still_there(partition, last, (first, after))
    ]
