"""The site: `make docs` builds it into build/site, offline, with warnings as errors."""

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_ext"))

_project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = _project.get("urls", {}).get("Repository", "").removesuffix(".git")

project = "dpstream"
author = "The dpstream developers"
version = release = _project["version"]
project_copyright = "the dpstream developers, Apache-2.0"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "site_blocks",
    "site_reference",
    "site_benchmarks",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_ext", "_generated", "_static", "recorded"]
suppress_warnings = ["misc.highlighting_failure", "myst.header", "ref.python"]
nitpicky = False

# --- text
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline", "attrs_block", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
html_math_renderer = "mathml"

# --- appearance
html_theme = "furo"
html_title = f"dpstream {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
html_theme_options = {
    "navigation_with_keys": True,
    "top_of_page_buttons": ["edit"] if REPOSITORY else [],
}
if REPOSITORY:
    html_theme_options |= {
        "source_repository": REPOSITORY + "/",
        "source_branch": "main",
        "source_directory": "docs/",
    }
pygments_style = "default"
copybutton_prompt_text = r"\$ |>>> |\.\.\. |> "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
copybutton_selector = "div.highlight:not(.printed) > pre"

# --- reference
default_role = "code"
maximum_signature_line_length = 80
python_use_unqualified_type_names = True
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_mock_imports = ["torch", "opacus", "jax", "optax", "jax_privacy", "pyspark"]
napoleon_google_docstring = False
napoleon_custom_sections = ["Guarantee", ("Error", "notes_style"), ("Cost", "notes_style")]
napoleon_use_rtype = False
napoleon_use_ivar = True
