"""A packed environment, as `pack_environment` returns it."""

from pathlib import Path

from loader.spark.packing import PackedEnvironment

PACKED = PackedEnvironment(
    path=Path("/var/cache/of us/penstock-environment-1.zip"),
    bytes=1,
    files=1,
    distributions=(),
    python_version="3.11",
    driver_path=(Path("/opt/penstock/site-packages"),),
    reused=True,
    seconds=0.0,
)
