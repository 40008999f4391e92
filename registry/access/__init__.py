"""Who asks a registry, and what each may: logins, permissions, and who speaks for another."""
