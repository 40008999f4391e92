"""Consumer groups as their coordinators know them, seen from outside."""
