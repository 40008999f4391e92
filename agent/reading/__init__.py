"""The pipeline thread: from a piece of a file to finished batches of a destination."""
