"""A call made ready to be sent: its function, its arguments, its graph. Knows neither thread nor loop."""
