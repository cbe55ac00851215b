"""Values that all actors of the scheduler know: peers, owners, events, resources, states of tasks, shared services.

The modules are below all messages and all other folders of `scaler/actors`, and have no actors. The edge and the actors
change the values that outlive sessions: the directory, the accounts and the owners.
"""
