"""How a running driver is found, commanded and measured."""
