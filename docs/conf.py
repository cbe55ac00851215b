import re
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_VERSION = re.search(r'^__version__ = "(.+)"$', (_ROOT / "scaler" / "version.py").read_text(), re.MULTILINE)

project = "Scaler"
author = "the Scaler authors"
copyright = author
assert _VERSION is not None, "scaler/version.py has no version"
release = _VERSION.group(1)

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"Scaler {release}"
