"""The page in the browser: a server that receives the monitor stream, aggregates it, and serves one page.

Each request passes the filter. The files in `static/` are plain modules, which load nothing from another host.
"""
