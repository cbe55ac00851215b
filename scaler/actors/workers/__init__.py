"""Workers as the scheduler sees them: a proxy for each, its runs, and the balancer that assigns tasks to them.

Agent sessions start the proxies; tasks send messages to them. The balancer asks a policy where a task runs
(`scaler.actors.policy`).
"""
