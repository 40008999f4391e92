"""Unit costs: figures from docs/benchmarks, identified by profile and case.

All were measured on one machine with two cores, with lines of 200 bytes. Update them after new
measurements. docs/capacity.md compares them with other figures, and states their accuracy.
"""

from typing import Final

LINE_BYTES: Final = 200

# agent-steady, "plain, one file" and "JSON, one file": CPU-s per million lines.
AGENT_PLAIN_LINE_SECONDS: Final = 1.21e-6
AGENT_JSON_LINE_SECONDS: Final = 1.40e-6
# agent-steady, "1,000 files, a line a second from each": a read per line.
AGENT_READ_SECONDS: Final = 0.154 / 1000
# The same case: peak RSS, MB.
AGENT_MB: Final = 78.9
# agent-backlog: compression, whose cost depends on bytes, is three quarters of a plain line's.
AGENT_SHARE_OF_BYTES: Final = 3 / 4
# agent-backlog, "plain" and "JSON, six typed fields and a time": bytes per line in the topic.
PLAIN_WIRE_BYTES: Final = 66.6
JSON_WIRE_BYTES: Final = 65.4

# produce-1mb, "acks=all, 1 connection": broker CPU-s/GB.
BROKER_APPEND_GB_SECONDS: Final = 0.80
# produce-50, "acks=all, 4 connections": the rest of 5.66 CPU-s/GB, per batch of 10 kB.
BROKER_BATCH_SECONDS: Final = (5.66 - BROKER_APPEND_GB_SECONDS) * 10e3 / 1e9
# cluster-produce, "batches of fifty", three replicas: 144.08 CPU-s/GB of all brokers, per batch
# of 10 kB and replica. This includes a flush and a fetch for each batch.
BROKER_REPLICATED_BATCH_SECONDS: Final = 144.08 * 10e3 / 1e9 / 3
# consume, "raw, batches of 1 MB, fetches of 1 MB": broker CPU-s/GB.
BROKER_FETCH_GB_SECONDS: Final = 0.23
# produce-1mb: broker peak RSS, MB.
BROKER_MB: Final = 66.0
# connections, "idle connections": bytes per connection.
CONNECTION_BYTES: Final = 3424
# startup, "after a graceful stop": 1.07 s for 1,000 partitions.
BROKER_START_PARTITION_SECONDS: Final = 1.07 / 1000

# mirror, "lz4": mirror CPU-s/GB, and the largest peak RSS of its cases, MB.
MIRROR_GB_SECONDS: Final = 0.69
MIRROR_MB: Final = 91.0

# loader, "8 partitions, hours closed and merged": CPU-s per million rows.
LOADER_ROW_SECONDS: Final = 0.99e-6
# loader, "8 partitions, hours left open": the JVM's and the largest worker's peak RSS, MB; bytes of
# files per row.
LOADER_JVM_MB: Final = 805.0
LOADER_WORKER_MB: Final = 447.0
ROW_FILE_BYTES: Final = 22.7

# audit-folding, "decoded and folded": entries per second and core.
AUDIT_ENTRIES: Final = 120_081
# docs/audit-configuration.md: an agent that ships, and a broker, write an entry every ten seconds.
LEDGER_INTERVAL_SECONDS: Final = 10.0

# groups, memory of offsets: MB resident with 10,000 offsets.
ZOOKEEPER_MB: Final = 84.3
# registry, "resident memory, all in use": MB with 10,000 schemas.
REGISTRY_MB: Final = 113.0

# The agent's defaults: how long a batch waits, and when it is full.
LINGER_SECONDS: Final = 0.1
FULL_BATCH_BYTES: Final = 1e6
