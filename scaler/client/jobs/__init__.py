"""Jobs at the client: create a job, find it again, and compare its function and rows with those of an earlier call.

Called by `Client`, in any thread of the user. The scheduler stores the jobs.
"""
