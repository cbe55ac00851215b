"""Workers as the scheduler sees them: a proxy for each, its runs, and the balancer that gives them tasks.

The session of an agent starts the proxies of its workers, and tasks speak with theirs. Where a task goes is decided by
a policy (`scaler.actors.policy`), which the balancer alone asks. Never here: a connection.
"""
