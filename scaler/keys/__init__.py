"""Keys: the files that list who may connect to a scheduler over TCP, and the files with which peers prove who they are.

The command `scaler_keys` writes the files. The scheduler reads the list of accepted keys, and the transport of each
peer finds the key file for an address. The package has no sockets, and does not decide what a role may do.
"""
