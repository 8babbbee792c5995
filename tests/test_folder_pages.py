"""The pages that public datasets are asked, on small domains that lie in folders."""
import pytest

from conftest import EXPERIMENTS, run_python, toy_repository
from modit.repro.datasets.datasets import DATASETS
from modit.data.folder import inspect_folder, write_folder
from modit.repro.report.report import read_cases
from modit.repro.pages.notebooks import short_name
from modit.settings import load_settings
from modit.data.synth import make_domain, make_world

NAMES = ('mice', 'men-2')
OWN = dict(items='3000 3600', clusters='12 12', heldout_clusters='3 3', valid_clusters='2 2',
           train_rows='64 96', normal_share='.2 .2', repetition='1 1', sft_epochs='1 1', heldout_items='.5')
MAIN = ('data', 'density', 'main', 'bootstrap')
ASKED = {*MAIN, *(page for row in DATASETS.values() for page in row.pages)}
PAGES = [page.stem for page in EXPERIMENTS if short_name(page.stem) in ASKED]
RUN = """
import matplotlib
matplotlib.use('agg')
from modit.repro.pages import page as pages
from modit.repro.pages.page import open_page, page_module
from modit.repro.pages.redraw import given_by
pages.save_figure = lambda *given: None # figures are made and not drawn, which takes longest
for name in {}:
    page = open_page(name, profile='tiny', fresh=True)
    module = page_module(name)
    scores = page.scores(module)
    page.publish(*(given_by(module, x, scores, page) for x in ('table', 'plot', 'claims')))
"""


@pytest.mark.slow
def test_pages_run_on_folders(tmp_path, monkeypatch):
    "In a copy of the repository with two folders and a profile of theirs."
    copy, s = toy_repository(tmp_path/'modit'), load_settings('smoke')
    for name, generated in zip(NAMES, s.domains, strict=False):
        domain = make_domain(make_world(s), generated, s)
        ids = [f'{name}{i}' for i in range(len(domain.items))]
        write_folder(copy/'runs'/'tiny'/name, domain.items.astype('float16'), ids, domain.attribute,
                     text=[f'about {x}: more' for x in ids])
        assert not inspect_folder(copy/'runs'/'tiny'/name)[1]
    (copy/'runs'/'tiny'/'mice'/'LICENSE').write_text('copies may go', 'utf-8')
    own = dict(base='smoke', domains=' '.join(NAMES), folders=' '.join(f'tiny/{x}' for x in NAMES), **OWN)
    with open(copy/'settings.ini', 'a', encoding='utf-8') as f:
        f.write('\n'.join(['', '[tiny]', *(f'{k} = {v}' for k, v in own.items()), '']))
    monkeypatch.setenv('MODIT_RUNS', str(copy/'runs'))
    run_python(RUN.format(PAGES), copy)
    found = copy/'figures'/'tiny'
    tables = {p.stem for p in found.glob('tab-*.csv')}
    assert {'tab-main', 'tab-order', 'tab-cand', 'tab-hppo-abl', 'tab-baselines', 'tab-app-mice'} <= tables
    for name in ('tab-main', 'tab-order', 'tab-cand', 'tab-hppo-abl', 'tab-baselines'):
        text = (found/f'{name}.csv').read_text('utf-8')
        assert all(domain in text for domain in NAMES), name
    assert (found/'claims.csv').exists()
    lists = read_cases(found, 'lists').groupby('domain').text.count()
    assert lists['mice'] and not lists.drop('mice').any(), 'texts stay without a licence'
