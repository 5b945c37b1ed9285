"""The settings of the site: `make docs` builds it."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for our own extensions, in docs/

project = "alibi_viz"
author = "the alibi_viz authors"
copyright = f"2026, {author}"
version = release = installed_version("alibi-viz")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "docs.check_reports",
    "docs.docstrings",
    "docs.formulas",
    "docs.lesson_pages",
    "docs.start_page",
]
exclude_patterns = ["page"]
smartquotes_action = "D"  # dashes only: quotes around a word are often those of a string

# Guides and lessons
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
myst_heading_slug_func = "docs.lesson_pages.jupyter_anchor"
nb_execution_mode = "off"  # the outputs are those that the notebooks store
nb_merge_streams = True
nb_code_prompt_show = "Code"
nb_code_prompt_hide = "Code"

# API: docstrings are in Google's style, with names of code between single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 110
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes as one list
napoleon_custom_sections = [("Traits", "params_style")]
add_module_names = False
toc_object_entries_show_parents = "hide"

html_title = "ALiBi"
html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["docs.css"]
html_js_files = ["guesses.js", ("sort.js", {"defer": "defer"})]
html_extra_path = ["../notebooks/images/page.gif"]  # for cards of links to the page
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # it would read other pages, which a page from a file may not
html_use_index = False
html_domain_indices = False
html_sidebars = {"**": ["sidebar-nav-bs"]}
html_context = {"default_mode": "auto"}  # light or dark, as the system is
html_theme_options = {
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
    "navbar_align": "left",
}
copybutton_exclude = ".linenos, .gp, .go"
