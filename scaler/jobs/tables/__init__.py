"""The tables of the record of one job: its database schema, and a module for each table.

Called by the record, in the job writer's thread or by `scaler_jobs --file`. No module here decides about the job.
"""
