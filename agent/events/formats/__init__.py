"""How a line is understood: one module for each kind."""
