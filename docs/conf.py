"""Sphinx settings of the site; `make docs` lays out the sources and runs it."""
import importlib.resources
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = tomllib.loads((HERE.parent/'pyproject.toml').read_text())['project']

project, version = PACKAGE['name'], PACKAGE['version']
author = 'the modit authors'
copyright = f'{author}, {PACKAGE["license"]}'
extensions = ['myst_nb']
highlight_language = 'none'
suppress_warnings = ['mystnb.unknown_mime_type']
linkcheck_timeout = 20

# pages: stored outputs, never executed
nb_execution_mode = 'off'
nb_code_prompt_show = 'imports'
nb_code_prompt_hide = 'imports'
nb_ipywidgets_js = {}
WIDGET = 'application/vnd.jupyter.widget-view+json' # dead without a kernel: what else is stored is shown
nb_mime_priority_overrides = [('html', WIDGET, None)]
nb_render_markdown_format = 'myst' # of stored outputs: tables
myst_enable_extensions = ['dollarmath', 'amsmath', 'colon_fence', 'deflist']
myst_heading_anchors = 3

# mathematics: MathJax from a package, one file without fonts, so that pages need no network
MATHJAX = importlib.resources.files('sphinx-mathjax-offline')/'static'/'mathjax'/'tex-svg.js'
mathjax_path = 'tex-svg.js'
mathjax_options = dict(defer='defer')

# the look
html_theme = 'furo'
html_title = 'modit'
html_static_path = [str(HERE/'site.css'), str(MATHJAX)]
html_css_files = ['site.css']
html_copy_source = False
html_show_sphinx = False
html_favicon = html_logo = str(HERE/'logo.svg')
pygments_style, pygments_dark_style = 'a11y-light', 'github-dark'
BLUE, SKY, ORANGE = '#0072B2', '#56B4E9', '#E69F00' # of the figures
BRAND = ('brand-primary', 'brand-content', 'brand-visited', 'api-name', 'api-pre-name')
CODE = ('color-code-background', 'mystnb-source-bg-color', 'mystnb-source-border-color')


def look(brand, code):
    "The theme's variables, from the colour of links and the ground of code."
    links = dict.fromkeys((f'color-{name}' for name in BRAND), brand)
    return {**links, **dict.fromkeys(CODE, code), 'picked': ORANGE}


html_theme_options = dict(light_css_variables=look(BLUE, '#f7f8fa'), dark_css_variables=look(SKY, '#1b1f24'))
add_module_names = False
python_display_short_literal_types = True
python_maximum_signature_line_length = 104
toc_object_entries_show_parents = 'domain'
