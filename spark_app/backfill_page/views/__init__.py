"""Views: values of a job in, strings of a page out.

Not allowed inside: clocks, threads, files, HTML.
"""
