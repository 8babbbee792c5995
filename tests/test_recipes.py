"""Recipes of CONTRIBUTING, followed together in one copy: few files each, and no other model is trained.

The recipe of a preference loss is in test_faults.py, that of a backbone in test_backbone.py.
"""
import json
import shutil

import pandas as pd
import pytest

from conftest import copy_repository, results, run_nbdev, run_python

pytestmark = pytest.mark.slow

KEYS = """
import json
from modit.repro.report.looks import STAGES
from modit.stages.stages import stage_key
from modit.settings import load_settings, repo_root
from modit.repro.datasets.datasets import CLAIMED
from modit.repro.report.ledger import ledger_in
keys = {x: stage_key(load_settings('mini'), x, 'D1') for x in STAGES}
real = [ledger_in(repo_root()/'figures'/x).get('claims', ()) for x in CLAIMED]
print('found', json.dumps([keys, sum(map(len, real))]))"""
TOYS = """
from modit.repro.pages.page import COMMITTED
assert 'toys' in COMMITTED"""


def keys_and_claims(copy, code=''):
    "The keys of all stages of D1, and the number of claims of real data."
    return json.loads(run_python(code + KEYS, copy).rpartition('found ')[2])


def modules(copy):
    "Contents of the exported modules by their path."
    return {str(p.relative_to(copy/'modit')): p.read_bytes() for p in (copy/'modit').rglob('*.py')}


def write_page(path, page): path.write_text(json.dumps(page, indent=1, ensure_ascii=False) + '\n', 'utf-8')


def edit(path, old, new):
    "Replace a text in the one cell of a page that has it."
    page = json.loads(path.read_text('utf-8'))
    (cell,) = [c for c in page['cells'] if old in ''.join(c['source'])]
    cell['source'] = ''.join(cell['source']).replace(old, new).splitlines(keepends=True)
    write_page(path, page)


# ---- a preference variant: one row
BEFORE = '    static=Variant('
ROW = f"    eager=Variant('Eager', tolerance=0., stretch=2),\n{BEFORE}"

# ---- a public dataset: one row, one page, one section
TOYS_PAGE = '''#| export
import numpy as np

from modit.data.folder import write_folder

def make_toys(name, folder):
    "Items around random patterns, a third of them positive."
    rng = np.random.default_rng(0)
    pattern = np.repeat(np.arange(12), 50)
    x = rng.normal(size=(12, 16))[pattern] + .3*rng.normal(size=(600, 16))
    ids = [f'toy {i}' for i in range(600)]
    write_folder(folder, x.astype(np.float32), ids, rng.random(600) < .4, pattern=pattern.astype(str))
'''
HEAD = 'DATASETS = { # profile -> its row'
DATASET = f"""{HEAD}
    'toys': Dataset('datasets.toys:make_toys', ('order',)),"""
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

# ---- a page with a claim: the page, and one line of claims.csv
CLAIM = """#| export
def claims(
    scores, # of `run`
    p,      # Page
) -> list:
    "One claim, which is not confirmed."
    rows = differences(joined(scores), p)
    return [judge('B99', rows.assign(verdict='against'))]
"""
LINE = 'B99,method,synthetic,twice,ours,HPPO is below MO-DiT.\n'
NEW_NAMES = {'380_bootstrap': '385_twice', 'repro.paper.bootstrap': 'repro.paper.twice',
             'fig-sig': 'fig-twice'}


def add_toys(copy):
    datasets = copy/'nbs'/'repro'/'datasets'
    edit(datasets/'031_datasets.ipynb', HEAD, DATASET)
    page = json.loads((datasets/'031_datasets.ipynb').read_text('utf-8'))
    cell = next(c for c in page['cells'] if c['cell_type'] == 'code')
    sources = '#| default_exp repro.datasets.toys', TOYS_PAGE
    page['cells'] = [dict(cell, id=f't{i}', source=source) for i, source in enumerate(sources)]
    write_page(datasets/'053_toys.ipynb', page)
    with open(copy/'settings.ini', 'a', encoding='utf-8') as f: f.write(SECTION)


def add_claim(copy):
    text = (copy/'nbs'/'repro'/'paper'/'380_bootstrap.ipynb').read_text('utf-8')
    for old, new in NEW_NAMES.items(): text = text.replace(old, new)
    page = json.loads(text)
    for cell in page['cells']:
        if 'def claims(' in ''.join(cell['source']): cell['source'] = CLAIM
    write_page(copy/'nbs'/'repro'/'paper'/'385_twice.ipynb', page)
    with open(copy/'figures'/'reported'/'claims.csv', 'a', encoding='utf-8') as f: f.write(LINE)


@pytest.fixture(scope='module')
def followed(tmp_path_factory):
    "A copy in which three recipes were followed; its modules, keys and claims of real data before."
    copy = copy_repository(tmp_path_factory.mktemp('recipes')/'modit')
    with pytest.MonkeyPatch.context() as m:
        m.setenv('MODIT_RUNS', str(copy/'runs'))
        before = modules(copy), *keys_and_claims(copy)
        edit(copy/'nbs'/'repro'/'report'/'195_looks.ipynb', BEFORE, ROW)
        add_toys(copy)
        add_claim(copy)
        run_nbdev(copy, 'nbdev-export')
        yield copy, *before


def test_each_recipe_is_the_files_that_it_names(followed):
    copy, code, *_ = followed
    changed = {name for name, text in modules(copy).items() if text != code.get(name)} - {'_modidx.py'}
    assert changed == {'repro/report/looks.py', 'repro/datasets/datasets.py', 'repro/datasets/toys.py',
                       'repro/paper/twice.py'}


def test_no_other_model_is_trained_again(followed):
    copy, _, keys, _ = followed
    after, _ = keys_and_claims(copy)
    assert after.pop('eager') not in after.values() and after == keys, 'it trains more than itself'


def test_a_claim_stands_in_the_ledger(followed):
    copy, *_ = followed
    run_python("""from modit.repro.pages.redraw import redraw_page
redraw_page('twice', profile='mini')""", copy)
    assert pd.read_csv(copy/'figures'/'mini'/'claims.csv').set_index('id').verdict['B99'] == 'opposite'


def test_a_public_dataset_is_made_and_asked(followed):
    copy, _, _, claims = followed
    def modit(*words): return run_python(f'from modit.cli.command import main; main({[*words]})', copy)
    assert modit('public', '--profile', 'toys').strip() == str(copy/'runs'/'public'/'toys')
    jobs = run_python("""import subprocess, sys
local = ['--workflow-profile', 'workflow/profiles/local', '--config', 'profile=toys']
subprocess.run([sys.executable, '-m', 'snakemake', 'public', *local, '--dry-run'], check=True)""", copy)
    assert all(f'run_{name}' in jobs for name in ('320_main', '330_order')) and 'run_350_pareto' not in jobs
    (copy/'figures'/'toys').mkdir()
    for name in ('claims.csv', 'claim-cells.csv'):
        shutil.copy(copy/'figures'/'icons'/name, copy/'figures'/'toys'/name)
    assert keys_and_claims(copy, TOYS)[1] > claims, 'its ledger is one of real data'


# ---- a baseline: one file
BASELINES = '\nBASELINES = dict(\n'
HALFWAY = """
def halfway(corpus, cases, eta): return steer(average_pool(corpus, cases), corpus, eta/2) # ours
def _halfway(corpus, s): return lambda cases, eta: halfway(corpus, cases, eta)

BASELINES = dict(
    halfway=Baseline('Half the probe', (.2, .4), _halfway),
"""


def test_a_baseline_is_one_file_and_its_page_is_drawn_as_before(followed):
    copy, *_ = followed
    edit(copy/'nbs'/'150_baselines.ipynb', BASELINES, HALFWAY)
    run_nbdev(copy, 'nbdev-export')
    before = results(copy, 'mini')
    run_python("""from modit.repro.pages.redraw import redraw_page
redraw_page('baselines', profile='mini')
from modit.repro.ours.baselines import RIVALS, ROWS
from modit.repro.report.looks import look
assert 'halfway' in RIVALS and ROWS['halfway'].grid == (.2, .4) and look('halfway').label == 'Half the probe'
""", copy)
    after = results(copy, 'mini')
    assert {name: after[name] for name in before} == before
