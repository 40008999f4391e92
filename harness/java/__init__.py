"""JVMs, their jars and classes."""
