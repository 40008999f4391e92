"""Spark as a load starts it, what is shipped to executors, and the job that they run."""
