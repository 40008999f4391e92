"""From the journal to acknowledgements, on a thread of its own."""
