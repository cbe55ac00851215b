"""Makes calls ready to be sent: functions, arguments, graphs. Knows neither threads nor loops."""
