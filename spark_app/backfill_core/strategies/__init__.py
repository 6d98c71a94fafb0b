"""One folder a strategy: params.py, strategy.py, README.md. Found by discovery, never listed."""
