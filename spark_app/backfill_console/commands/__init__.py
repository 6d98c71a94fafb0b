"""Commands at a screen: their answers, and the keys that send them.

Not allowed inside: what the block of a job may not import either, and the sending of commands.
"""
