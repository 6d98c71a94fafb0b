"""The jobs of this machine as the source of the page."""
