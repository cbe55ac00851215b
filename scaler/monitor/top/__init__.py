"""scaler_top: the cluster in a terminal. `program` is the loop: messages change the model, and keys change the view."""

import os

# Blessed asks the terminal what it can, and would wait five seconds for one that does not answer.
os.environ.setdefault("BLESSED_QUERY_TIMEOUT_SECONDS", "1")
