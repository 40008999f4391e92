"""Consumer groups as known to the brokers, with their topics and lag; shown beside the verdict, not
part of it."""
