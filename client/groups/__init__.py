"""Consumer groups that have coordinators, seen from outside."""
