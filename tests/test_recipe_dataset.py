"""The recipe "Another public dataset", done in a copy: one row, one page, one section."""
import json
import shutil

import pytest

from conftest import copy_repository, run_python
from test_recipe_baseline import EXPORT

PAGE = '''
import numpy as np

from modit.data.folder import write_folder
from modit.store import runs_dir

def make_toys(name):
    "Items around random patterns, a third of them positive."
    folder = runs_dir()/'public'/name
    if (folder/'embeddings.npy').exists(): return folder
    rng = np.random.default_rng(0)
    pattern = np.repeat(np.arange(12), 50)
    x = rng.normal(size=(12, 16))[pattern] + .3*rng.normal(size=(600, 16))
    ids = [f'toy {i}' for i in range(600)]
    write_folder(folder, x.astype(np.float32), ids, rng.random(600) < .4, pattern=pattern.astype(str))
    return folder
'''
ROW = """
    'toys': Dataset('datasets.toys:make_toys', 'toys', 'random numbers', 'nobody owns them', ('order',)),"""
SECTION = """
[toys]
base = smoke
domains = toys
folders = public/toys
items = 600
clusters = 12
heldout_clusters = 3
valid_clusters = 2
train_rows = 154
normal_share = .2
repetition = 1
sft_epochs = 1
"""
KEYS = """
from modit.stages.stages import STAGES, stage_key
from modit.settings import load_settings
print('keys', *[stage_key(load_settings('mini'), name, 'D1') for name in STAGES])"""
COUNTED = """
from modit.repro.verdicts.claims import HEAD, real_ledger
from modit.repro.pages.page import COMMITTED
assert 'toys' in COMMITTED and 'toys' in HEAD
print('claims', len(real_ledger()['claims']))"""


def told(copy, code):
    lines = run_python(code, copy).splitlines()
    return [next(x for x in lines if x.startswith(word)) for word in ('keys ', 'claims ')]


@pytest.mark.slow
def test_a_public_dataset_is_one_row_one_page_one_section(tmp_path, monkeypatch):
    copy = copy_repository(tmp_path/'modit')
    monkeypatch.setenv('MODIT_RUNS', str(copy/'runs'))
    keys, claims = told(copy, KEYS + COUNTED.replace('assert', 'assert True or'))
    page = copy/'nbs'/'repro'/'datasets'/'031_datasets.ipynb'
    nb = json.loads(page.read_text())
    (cell,) = [c for c in nb['cells'] if 'DATASETS = {' in ''.join(c['source'])]
    head = 'DATASETS = { # profile -> its row'
    code = ''.join(cell['source'])
    assert head in code
    cell['source'] = code.replace(head, head + ROW).splitlines(keepends=True)
    page.write_text(json.dumps(nb, indent=1))
    sources = ['#| default_exp repro.datasets.toys', f'#| export\n{PAGE}']
    nb['cells'] = [dict(cell, id=f't{i}', source=source) for i, source in enumerate(sources)]
    (copy/'nbs'/'repro'/'datasets'/'053_toys.ipynb').write_text(json.dumps(nb, indent=1))
    with open(copy/'settings.ini', 'a') as f: f.write(SECTION)
    run_python(EXPORT, copy)

    def modit(*words): return run_python(f'from modit.cli.command import main; main({[*words]})', copy)
    assert modit('public', '--profile', 'toys').strip() == str(copy/'runs'/'public'/'toys')
    jobs = modit('main', 'public', '--profile', 'toys', '--dry-run')
    assert all(f'run_{name}' in jobs for name in ('320_main', '330_order')) and 'run_350_pareto' not in jobs
    (copy/'figures'/'toys').mkdir()
    for name in ('claims.csv', 'claim-cells.csv'):
        shutil.copy(copy/'figures'/'icons'/name, copy/'figures'/'toys'/name)
    same, more = told(copy, KEYS + COUNTED)
    assert same == keys, 'other models are trained again'
    assert int(more.split()[1]) > int(claims.split()[1]), 'its ledger is one of real data'
