"""Ships journalled batches, and processes acknowledgements, on a thread of its own."""
