"""The tables of the record of one job: its database schema, and a module for each table.

Called by the record, in the clerk's thread or by `scaler_jobs --file`. What never belongs here: a decision about
the job.
"""
