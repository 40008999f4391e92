"""Access to the HTTP server: logins, sessions, operators, and the door that checks them."""
