"""What surrounds the call of a task's function: its values, its output, its waits, its measure, its failure.

Called by the processor, and, for tasks that run elsewhere, by the executors for threads and for other engines. Never
here: the channel to the agent.
"""
