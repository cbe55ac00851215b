import re
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_VERSION = re.search(r'^__version__ = "(.+)"$', (_ROOT / "scaler" / "version.py").read_text(), re.MULTILINE)

project = "Scaler"
author = "the Scaler authors"
copyright = author
assert _VERSION is not None, "scaler/version.py has no version"
release = _VERSION.group(1)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # annotations name types that have no page here
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"

html_theme = "furo"
html_title = f"Scaler {release}"
