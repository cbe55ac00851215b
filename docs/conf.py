import re
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_VERSION = re.search(r'^__version__ = "(.+)"$', (_ROOT / "scaler" / "__init__.py").read_text(), re.MULTILINE)

project = "Scaler"
author = "the Scaler authors"
copyright = author
release = _VERSION.group(1) if _VERSION else "unknown"

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"Scaler {release}"
