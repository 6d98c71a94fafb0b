"""The commands: options in, reads and writes, output."""
