"""One actor for each task: its states, its attempts, its retries, and how it adopts a run that an agent already has.

Sessions and graphs start tasks. The balancer and worker proxies exchange messages with tasks. A task knows no peer and
no connection.
"""
