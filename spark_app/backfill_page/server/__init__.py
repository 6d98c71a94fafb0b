"""The server of the page: loopback only, a one-time link, pages, streams and actions.

Not allowed inside: rules about jobs, and reads of drivers or clusters other than by the port of a source.
"""
