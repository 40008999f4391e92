"""The Spark session of a load, the environment of its executors, and the job that they run."""
