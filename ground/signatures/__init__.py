"""Ed25519 keys in files, and documents signed with them."""
