"""What programs that were written for Scaler 1.x import from here.

Nothing else of Scaler imports it. Most of it names what is elsewhere now. Never here: anything that is not in 1.x.
"""
