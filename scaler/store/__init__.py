"""The store of a host: the values that one agent keeps, in shared memory within a budget, and beyond it on disk.

Called by the object cache of an agent, through `store`. `host_share` adds up what the stores of one user hold on one
host. `spill_folder` keeps the files. `opening` finds the limits and creates a store.
"""
