"""scaler_top: the cluster in a terminal."""
