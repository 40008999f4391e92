"""Consumer groups as the brokers have them: who reads a topic, and how far behind. Shown beside the
verdict, and no part of it."""
