"""The site: built without a warning, its links lead somewhere, and a browser shows it without a network."""
import html
import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import fields

import pytest

import modit
from browser import Browser, find_browser
from conftest import EXPERIMENTS, LIBRARY, ROOT, environment
from modit.settings import Settings

sys.path.insert(0, str(ROOT/'docs'))
import llms  # noqa: E402
from api import read_settings  # noqa: E402
from docments import all_notebooks, cell_entries, entries_of, split_source  # noqa: E402
from links import broken_links  # noqa: E402
from stage import link_pages  # noqa: E402

NEEDED = ('sphinx', 'myst_nb', 'furo', 'sphinx-mathjax-offline')


# ---- what is read from the pages
CELL = """
#| export
def mix(
    rows,        # how many, `n`
    share:float=.5, # of | each
) -> list: # of rows
    "Mixes rows (App. B, Stages); raises `ValueError` for none."
"""


def test_docments_of_a_cell():
    "Signatures and summaries are in docs/apilist.txt, which is compared below."
    mix, = cell_entries(CELL)
    assert mix.parameters == [('rows', '', '', 'how many, `n`'), ('share', 'float', '0.5', 'of | each')]
    assert mix.source == 'App. B, Stages' and mix.returns == ('list', 'of rows')


@pytest.mark.parametrize('docstring, source', [
    ('Layer norm whose gain is given (AdaLN).', ''), ('The stage (L_CPT, stage ii).', 'L_CPT, stage ii'),
    ('Sorted (score, id).', ''), ('A density (equation of D_y).', 'equation of D_y'), (None, '')])
def test_the_place_in_the_paper_is_told_from_other_parentheses(docstring, source):
    assert split_source(docstring)[1] == source


def test_every_public_name_of_a_module_is_in_the_api():
    for notebook in all_notebooks():
        source = (ROOT/notebook.module.replace('.', '/')).with_suffix('.py')
        if not source.exists(): continue # a tutorial exports nothing
        module = source.read_text()
        public = set(re.findall(r"'(\w+)'", re.search(r'__all__ = \[(.*?)\]', module, re.S)[1]))
        assert public == {e.name for e in entries_of(notebook) if '.' not in e.name}, notebook.path.name


@pytest.mark.parametrize('name', llms.FILES)
def test_lists_are_those_of_the_pages_and_results(name):
    text = (ROOT/name).read_text()
    assert text == llms.FILES[name](), 'run .venv/bin/python docs/llms.py'
    links = re.findall(r'\]\(([^):#]+)\)', text)
    assert not [link for link in links if not (ROOT/name).parent.joinpath(link).exists()]


def test_programs_find_every_page_and_every_name():
    pages, names, _ = ((ROOT/name).read_text() for name in llms.FILES)
    assert not [n.link for n in all_notebooks() if f']({n.link[1:]})' not in pages]
    assert not [name for name in modit.__all__ if not re.search(rf'^  {name}\b', names, re.M)]


def test_every_setting_is_in_the_api_with_its_source():
    found = [row for rows in read_settings().values() for row in rows]
    assert {name for name, *_ in found} == {f.name for f in fields(Settings)} - {'profile'}
    assert not [name for name, source, _ in found if not source], 'settings.ini gives no source for these'
    assert ('clusters', 'tab:data, Clusters (total)', 'pattern proxies C') in found


def test_pages_are_linked_outside_of_code_and_mathematics():
    pages = {n.number: n for n in all_notebooks()}
    text = 'Pages 130 and 140, 330_order, `page 130`, $x_{page 130}$, [page 130](x), page 999 and 7 items.'
    linked = ('Pages [130](/nbs/130_cpt.ipynb) and [140](/nbs/140_sft.ipynb), '
              '[330_order](/nbs/repro/paper/330_order.ipynb), ')
    assert link_pages(text, pages) == linked + text.partition('order, ')[2]


def test_broken_links_are_found(tmp_path):
    (tmp_path/'a.html').write_text('<a id="here" href="b.html#there"></a><img src="https://x.org/y.png">')
    (tmp_path/'b.html').write_text('<a href="a.html#here"></a><a href="c.html"></a><a href="https://x.org">')
    found = broken_links(tmp_path)
    assert [line.split(':')[0].split(',')[0] for line in found] == [
        'a.html loads https', 'a.html links to b.html#there', 'b.html links to c.html']


# ---- the site
@pytest.fixture(scope='session')
def site(tmp_path_factory):
    """The site of `make docs`, which continuous integration builds before the tests; a fresh one, built as it
    does, where that is of something else than what lies here now."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing: pytest.skip(f'the site needs {", ".join(missing)}; make docs installs them')
    folder = tmp_path_factory.mktemp('site')
    from build import built_from, inputs_of, stage_site
    made = built_from(ROOT/'build')
    if not made.exists(): pytest.skip('no site was built; make docs builds it')
    stage_site(folder/'docs-source')
    if made.read_text() == inputs_of(folder/'docs-source'): return ROOT/'build'/'docs'
    command = [sys.executable, 'docs/build.py', '--folder', str(folder)]
    run = subprocess.run(command, cwd=ROOT, env=environment(ROOT), capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return folder/'docs'


@pytest.mark.slow
def test_the_site_has_every_page(site):
    for page in LIBRARY + EXPERIMENTS: assert (site/page.relative_to(ROOT)).with_suffix('.html').exists()
    exporting = [n.name for n in all_notebooks() if not n.experiment and entries_of(n)]
    for name in exporting: assert (site/'api'/f'{name}.html').exists()


@pytest.mark.slow
def test_pages_show_stored_outputs_and_no_directives(site):
    for page in LIBRARY + EXPERIMENTS:
        text = (site/page.relative_to(ROOT)).with_suffix('.html').read_text()
        cells = json.loads(page.read_text())['cells']
        exports = any(''.join(c['source']).startswith('#| export') for c in cells) # a tutorial has none
        assert '#|' not in text and ('tag_exported' in text) == exports, page.name
        outputs = [o.get('data', {}) for c in cells for o in c.get('outputs', ())]
        shown = re.findall(r'src="[./]*_images/[0-9a-f]{64}\.png', text)
        assert len(shown) == sum('image/png' in o for o in outputs), page.name


@pytest.fixture(scope='session')
def browser(site, tmp_path_factory):
    if find_browser() is None: pytest.skip('the site is not opened: no chromium is installed')
    if not importlib.util.find_spec('websocket'): pytest.skip('the site is not opened: no websocket-client')
    with Browser(tmp_path_factory.mktemp('profile')) as found: yield found


def quiet(browser):
    "No script failed, everything that was asked for came, and nothing was asked of a network."
    asked = [e['request']['url'] for e in browser.told('Network.requestWillBeSent')]
    assert asked and not [url for url in asked if not url.startswith(('file:', 'data:', 'blob:'))]
    assert not browser.told('Runtime.exceptionThrown') and not browser.told('Network.loadingFailed')


PICTURES = '[...document.querySelectorAll("article img")].map(x => [x.naturalWidth, x.clientWidth])'


@pytest.mark.slow
def test_a_browser_shows_the_front_page_and_figures(browser, site):
    for page, least in (('nbs/repro/paper/330_order.html', 300), ('index.html', 0)):
        browser.open(site/page)
        quiet(browser)
        pictures = browser.evaluate(PICTURES)
        assert pictures and all(natural > least and shown > 200 for natural, shown in pictures)
    assert browser.evaluate('document.querySelector("h1").innerText').startswith('modit')
    assert browser.evaluate('document.querySelectorAll(".door").length') == 4
    assert not browser.evaluate('document.documentElement.scrollWidth > innerWidth'), 'wider than the window'


@pytest.mark.slow
def test_a_browser_shows_equations(browser, site):
    browser.open(site/'nbs'/'130_cpt.html')
    quiet(browser)
    assert browser.evaluate('document.querySelectorAll("mjx-container svg").length') == \
        browser.evaluate('document.querySelectorAll(".math").length') > 0
    assert not browser.evaluate('document.querySelectorAll("mjx-merror, [data-mjx-error]").length')
    box = 'document.querySelector("div.math svg").getBoundingClientRect()'
    wide, high = browser.evaluate(f'(r => [r.width, r.height])({box})')
    assert wide > 200 and high > 20


@pytest.mark.slow
def test_mathjax_reads_every_equation(browser, site):
    equations = set()
    for page in site.rglob('*.html'):
        equations |= set(re.findall(r'class="math[^"]*">\s*\\[(\[](.*?)\\[)\]]\s*</', page.read_text(), re.S))
    browser.open(site/'nbs'/'130_cpt.html')
    given = json.dumps(sorted(map(html.unescape, equations)))
    faulty = browser.evaluate(f'{given}.filter(x => MathJax.tex2svg(x).querySelector("[data-mjx-error]"))')
    assert len(equations) > 200 and not faulty


@pytest.mark.slow
def test_light_and_dark_differ(browser, site):
    looks = {}
    for scheme in ('light', 'dark'):
        browser.prefer(scheme)
        browser.open(site/'tour.html')
        looks[scheme] = browser.evaluate('getComputedStyle(document.body).backgroundColor')
    light, dark = (sum(map(int, re.findall(r'\d+', looks[s])[:3])) for s in ('light', 'dark'))
    assert light > 600 and dark < 150
