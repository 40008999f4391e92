"""Access to the HTTP server: logins, sessions, operators, and access control."""
