"""How `make docs` builds the site: pages in MyST, executed tutorials, nothing loaded from elsewhere."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
# Tutorials call `pmafl`: that of the environment which builds the site, with the package beside the pages.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH", "")])]
)
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ |= {"COLUMNS": "94", "TTY_COMPATIBLE": "0"}  # commands print for a page, not for a terminal

from pmafl import __version__  # noqa: E402

project = "pmafl"
author = "The pmafl developers"
copyright = "the pmafl developers, Apache-2.0"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "extensions.mathml",
    "extensions.texts",
    "extensions.modules",
    "extensions.tutorials",
    "extensions.links",
]
exclude_patterns = ["extensions", "**/.ipynb_checkpoints"]
templates_path = ["templates"]

# Pages
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
html_theme = "furo"
html_title = f"pmafl {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "native"
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
suppress_warnings = ["misc.highlighting_failure"]  # JSON and output with dots in it

# Tutorials
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 1200  # of a cell, on a slow machine
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_execution_show_tb = True

# The Python API
default_role = "py:obj"  # `name` links to it where it is known, and is code where it is not
nitpick_ignore_regex = [("py:.*", ".*")]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
maximum_signature_line_length = 90
