"""What Spark unpickles on its executors, and finds by name: `spark.read.format("penstock")`.

Spark looks for data sources in modules called `pyspark_…`, and refers to what it pickles by the
name of its module. That module must be found on a machine where nothing of Penstock was imported
yet: so it stands beside the package `penstock`, and imports that first, which puts the programs'
folders on the path.
"""

import penstock  # noqa: F401  puts the programs' folders on the path; must come first
from pyspark_penstock.landing import LandingSource
from pyspark_penstock.source import DefaultSource

__all__ = ["DefaultSource", "LandingSource"]
