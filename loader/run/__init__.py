"""One load: what its parts are given, who calls them, and in which order."""
