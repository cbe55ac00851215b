"""Jobs for users: making one, coming back to it, and what its rows are compared by.

Called by `Client`, in any thread of the user. What never belongs here: how a job is kept, which is the scheduler's.
"""
