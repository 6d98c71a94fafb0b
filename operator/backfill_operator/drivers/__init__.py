"""How the operator talks to running drivers."""
