"""One actor for each task: its states, its attempts, its repetitions, and how it takes over a run that goes on.

Sessions and graphs start tasks; the balancer and worker proxies speak with them. They know no peer and no connection.
"""
