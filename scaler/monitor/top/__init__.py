"""scaler_top: the cluster in a terminal.

`program` is one loop. Messages change the model, keys change the view, and a frame is drawn from both.
"""

import os

# Blessed asks the terminal what it can, and would wait five seconds for one that does not answer.
os.environ.setdefault("BLESSED_QUERY_TIMEOUT_SECONDS", "1")
