"""Plug-ins that exist only in the tests: numbers of a source with offsets are copied into a list, then followed."""
