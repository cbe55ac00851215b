"""Workers as the scheduler sees them: a proxy for each, its runs, and the balancer that gives them tasks.

Where a task goes is decided by a policy (`scaler.actors.policy`), which the balancer alone asks.
"""
