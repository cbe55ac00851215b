"""The viewers of a scheduler: they receive its monitor stream, derive rates and verdicts from it, and show them.

Commands and child processes start viewers, and `scaler_scale` uses parts of them. `subscriber` receives the stream.
`model` keeps the state. `top`, `ui`, `metrics`, `report` and `trace` show the state. Viewers change nothing in the
cluster.
"""
