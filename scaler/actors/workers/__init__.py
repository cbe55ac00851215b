"""Workers as the scheduler sees them: a proxy for each, its runs, and the balancer that assigns tasks to them.

The session of an agent starts the proxies of its workers. Tasks send messages to the proxies of their workers. A policy
(`scaler.actors.policy`), which only the balancer asks, decides where a task runs.
"""
