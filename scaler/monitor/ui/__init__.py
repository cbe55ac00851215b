"""The page in the browser: a server that hears the monitor stream, aggregates it, and shows it as one page.

The command `scaler_ui` and the child process of a client start it; browsers come in by the gate. Its files in `static/`
are sent as they are: plain modules, no build step. Never here: anything from another host.
"""
