"""Events that tests write and read: one of each built-in schema, and one with every type."""

import json
from typing import Any, Final

from schemas.event_schemas import DEAD_LETTER, LEDGER, LOG_LINE, built_in
from schemas.parsing import AvroSchema, parse

Event = dict[str, Any]

EVERYTHING: Final = parse(
    json.dumps(
        {
            "type": "record",
            "name": "Everything",
            "namespace": "penstock.test",
            "fields": [
                {"name": "nothing", "type": "null"},
                {"name": "yes", "type": "boolean"},
                {"name": "lowest_int", "type": "int"},
                {"name": "highest_int", "type": "int"},
                {"name": "lowest_long", "type": "long"},
                {"name": "highest_long", "type": "long"},
                {"name": "longs", "type": {"type": "array", "items": "long"}},
                {"name": "single", "type": "float"},
                {"name": "twice", "type": "double"},
                {"name": "raw", "type": "bytes"},
                {"name": "text", "type": "string"},
                {"name": "day", "type": {"type": "int", "logicalType": "date"}},
                {
                    "name": "price",
                    "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
                },
                {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["A", "B"]}},
                {"name": "key", "type": {"type": "fixed", "name": "Key", "size": 3}},
                {"name": "map", "type": {"type": "map", "values": ["null", "Suit"]}},
                {"name": "tree", "type": {"type": "array", "items": "Everything"}},
                {
                    "name": "any",
                    "type": ["null", "string", "Key", {"type": "array", "items": "int"}],
                },
            ],
        }
    )
)

SCHEMAS: Final[dict[str, AvroSchema]] = {
    "LogLine": built_in(LOG_LINE),
    "DeadLetter": built_in(DEAD_LETTER),
    "Ledger": built_in(LEDGER),
    "Everything": EVERYTHING,
}


def header(**changed: Any) -> Event:
    return {
        "time": 1_795_132_800_123,
        "host": "web-17.example.com",
        "app": "shop",
        "source": "01HF3Z5Y8ZK6Q2M8C1T9XW4N7B",
        "seq": 123_456_789,
        "position": 98_765_432_101,
    } | changed


def everything(**changed: Any) -> Event:
    return {
        "nothing": None,
        "yes": True,
        "lowest_int": -(2**31),
        "highest_int": 2**31 - 1,
        "lowest_long": -(2**63),
        "highest_long": 2**63 - 1,
        "longs": [sign * 2**power for power in range(0, 63, 3) for sign in (1, -1)],
        "single": -0.15625,
        "twice": 1e300,
        "raw": bytes(range(256)),
        "text": "Grüße, 世界 🚰",
        "day": -1,
        "price": b"\xff\x85",
        "suit": "B",
        "key": b"\x00\x7f\xff",
        "map": {"schlüssel": "A"},
        "tree": [],
        "any": [1, -1],
    } | changed


EVENTS: Final[dict[str, Event]] = {
    "LogLine": {
        "header": header(),
        "path": "/var/log/shop/app.log",
        "message": "ordered: 3 × café au lait\n\tfrom table 7",
    },
    "DeadLetter": {
        "header": header(seq=0),
        "topic": "orders",
        "reason": "byte 17: not JSON",
        "raw": b"{'single': \xff\x00}",
        "offset": 98_765_432_101,
        "path": "/var/log/shop/orders.json",
        "size": -1,
    },
    "Ledger": {
        "header": header(app="penstock", seq=20_160, position=0),
        "version": 1,
        "tier": "agent",
        "cluster": "dc1",
        "destination": "",
        "run": -1,
        "window_millis": 60_000,
        "passages": [
            {
                "topic": "orders",
                "topic_id": "y2k3JvRzQTuZBr7z1gVQwA",
                "partition": 3,
                "leader_epoch": 4,
                "offsets": [{"first": 1_000, "count": 90}, {"first": 1_500, "count": 10}],
                "no_events": 0,
                "windows": [
                    {
                        "start": 1_795_132_740_000,
                        "events": 100,
                        "bytes": 7_234,
                        "crc_sum": 5_123_456_789,
                        "late": 0,
                        "excepted": [],
                    }
                ],
                "runs": [
                    {
                        "source": "01HF3Z5Y8ZK6Q2M8C1T9XW4N7B",
                        "path": "/var/log/shop/orders.json",
                        "seq": 123_456_789,
                        "events": 100,
                        "position": 98_765_432_101,
                        "end_position": 98_765_452_101,
                        "lines": -1,
                        "excepted": [
                            {"fate": "filtered", "count": 2, "bytes": 311, "reason": "debug"}
                        ],
                    }
                ],
                "delays": [0, 0, 60, 40],
                "lists_batches": True,
                "batches": [{"skipped": 0, "count": 100, "crc": 4_000_000_007}],
                "origin": None,
                "digest": bytes(range(240, 256)),
                "uncompared": [{"first": 4_750, "count": 61}],
            }
        ],
        "rebuilt": [],
        "finished": [],
        "heartbeats": [
            {
                "until": 1_795_132_800_000,
                "topics": ["orders"],
                "lag_bytes": 0,
                "program_version": "0.2.0",
            }
        ],
        "retired": [],
        "accepted": [
            {
                "topic": "orders",
                "topic_id": "",
                "partition": -1,
                "offsets": [],
                "runs": [],
                "host": "web-18.example.com",
                "file": "hdfs://nn:8020/w/orders/dt=2026-11-20/a.parquet",
                "from_time": 1_795_130_000_000,
                "to_time": None,
                "reason": "disk died",
                "operator": "mara",
            }
        ],
        "checked": [
            {
                "topic": "orders",
                "from_time": 1_795_129_200_000,
                "to_time": 1_795_132_800_000,
                "files": 2,
                "rows": 4_711,
                "faults": [
                    {
                        "path": "orders/dt=2026-11-20/hour=00/part-dc1-0-0-9-1.parquet",
                        "hour": 1_795_129_200_000,
                        "fault": "missing",
                        "committed_rows": 9,
                        "found_rows": 0,
                    }
                ],
            }
        ],
        "damaged": [
            {
                "topic": "orders",
                "topic_id": "",
                "partition": 3,
                "offsets": {"first": 4_711, "count": 12},
                "reason": "the CRC does not match",
            }
        ],
        "unwatched": [
            {
                "topic": "orders",
                "path": "/var/log/shop/orders.log",
                "source": "01HF3Z5Y8ZK6Q2M8C1T9XW4N7B",
                "position": 692,
                "from_time": 1_795_132_700_000,
                "to_time": 1_795_132_790_000,
                "traces": "vanished",
                "reason": "the agent did not run",
            }
        ],
        "files": [
            {
                "topic": "orders",
                "source": "01HF3Z5Y8ZK6Q2M8C1T9XW4N7B",
                "path": "/var/log/shop/orders.log",
                "identity": "fd01-1a2b3c-18a5f3c2d9e4b700",
                "head_size": 1024,
                "head": "9f86d081884c7d659a2feaa0c55ad015",
                "shorter_heads": "9f86d0812c26b46b",
                "forgotten_before": 17,
            }
        ],
        "withdrawn": [
            {
                "topic": "orders",
                "topic_id": "9nOqJx0wSTyJp6m6CHkuvA",
                "partition": 3,
                "leader_epoch": 2,
                "first": 4_711,
                "count": 12,
                "reason": "the directory of the partition was removed",
                "resumes": 4_723,
            }
        ],
        "loads": [
            {
                "topic": "orders",
                "failed": True,
                "since": 1_795_132_000_000,
                "reason": "1 of 1 records cannot be decoded",
                "cure": "raise max_dead_share",
            }
        ],
        "scrubbed": [
            {
                "topic": "orders",
                "topic_id": "9nOqJx0wSTyJp6m6CHkuvA",
                "partition": 3,
                "recent": 1_795_132_000_000,
                "whole": 1_795_000_000_000,
            }
        ],
        "altered": [
            {
                "topic": "orders",
                "input": "orders",
                "source": "9nOqJx0wSTyJp6m6CHkuvA",
                "path": "/var/log/orders.log",
                "kind": "replaced",
                "name": "",
                "lines": 9,
                "count": 12,
                "from_time": 1_795_132_000_000,
                "to_time": 1_795_132_060_000,
                "hint": "cp1252",
            }
        ],
        "collided": [
            {
                "topic": "orders",
                "topic_id": "9nOqJx0wSTyJp6m6CHkuvA",
                "partition": 3,
                "leader_epoch": 2,
                "first": 4_711,
                "source": "9nOqJx0wSTyJp6m6CHkuvA",
                "seq": 17,
                "events": 2,
                "kept_partition": 3,
                "kept": -1,
                "from_time": 1_795_132_000_000,
                "to_time": 1_795_132_060_000,
            }
        ],
        "health": [
            {
                "name": "1",
                "program_version": "0.1.0",
                "started": 1_795_132_000_000,
                "interval_millis": 600_000,
                "topics": ["app.*"],
                "exclude": ["app.test"],
                "disks": [
                    {
                        "label": "/var/lib/penstock",
                        "free": 1 << 40,
                        "total": 1 << 41,
                        "free_files": -1,
                        "total_files": 1 << 20,
                    }
                ],
                "certificates": [{"label": "/etc/penstock/a.pem", "ends": 1_805_132_000_000}],
                "zookeeper": {
                    "connected": True,
                    "since": 1_795_132_000_000,
                    "servers": 3,
                    "serving": -1,
                },
                "problems": [{"kind": "rejected", "subject": "/a", "text": "typo", "since": 7}],
            }
        ],
        "compared": [
            {
                "journal": "loader-9nOqJx0wSTyJp6m6CHkuvA",
                "run": 12,
                "topic": "orders",
                "topic_id": "9nOqJx0wSTyJp6m6CHkuvA",
                "partition": 3,
                "offsets": [{"first": 4_711, "count": 12}],
            }
        ],
    },
    "Everything": everything(tree=[everything(any="leaf"), everything(any=b"abc", map={})]),
}
