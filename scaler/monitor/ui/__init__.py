"""The page in the browser: a server that receives the monitor stream, aggregates it, and serves one page.

A filter checks each request. The files in `static/` are plain JavaScript modules, which load nothing from other hosts.
"""
