"""Keys: who may connect to a scheduler over TCP, and how its peers prove who they are, as files.

Called by the command `scaler_keys`, which writes the files, by the scheduler, which reads its list, and by the
transport of each peer, which finds the file for an address. What never belongs here: a socket, or what a role may do.
"""
