"""The page in the browser: a server that receives the monitor stream, aggregates it, and serves one page.

The command `scaler_ui` and the child process of a client start the server. Each request passes the filter. The files in
`static/` are served unchanged: plain modules without a build step. They load nothing from another host.
"""
