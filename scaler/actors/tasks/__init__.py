"""One actor for each task: its states, its attempts, its retries, and how it adopts a run that an agent already has.

Started by sessions and graphs. A task exchanges messages with the balancer and worker proxies, and knows no connection.
"""
