"""The viewers of a scheduler: what they hear from it, what they derive from that, and how they show it.

Commands and child processes start them, and `scaler_scale` listens through them. `subscriber` hears the stream, `model`
makes a picture of it, and `top`, `ui`, `metrics`, `report` and `trace` show that. Never here: anything that changes a
task or asks a worker.
"""
