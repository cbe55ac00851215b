"""Jobs at the client: create a job, find a job again, and compare its function and rows with those of a call.

Called by `Client`, in any thread of the user. The scheduler stores the jobs.
"""
