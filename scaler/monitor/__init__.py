"""The viewers of a scheduler: what they receive from it, what they derive from that, and how they show it.

Commands and child processes start them, and `scaler_scale` uses them. `subscriber` receives the stream, `model` keeps
the state, and `top`, `ui`, `metrics`, `report` and `trace` show it. Viewers change nothing in the cluster.
"""
