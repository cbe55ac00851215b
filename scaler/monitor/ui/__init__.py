"""The page in the browser: a server that hears the monitor stream, aggregates it, and shows it as one page.

Its files in `static/` are sent as they are: plain modules, no build step, nothing from another host.
"""
