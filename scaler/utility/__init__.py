"""What programs that were written for Scaler 1.x import from here."""
