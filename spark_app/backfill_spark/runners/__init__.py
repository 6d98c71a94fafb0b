"""How work is done: what the driver offers to the code that does it, and that code, one module a kind of work."""
