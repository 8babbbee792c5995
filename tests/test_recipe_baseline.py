"""The recipe for a baseline, done in a clone: one file, and the committed page is drawn as before."""
import json

import pytest

from conftest import copy_repository, run_python

FUNCTION = """
def halfway(corpus, cases, eta): return steer(average_pool(corpus, cases), corpus, eta/2) # ours
def _halfway(corpus, s): return lambda cases, eta: halfway(corpus, cases, eta)

BASELINES = dict(
    halfway=Baseline('Half the probe', (.2, .4), _halfway),
"""
EXPORT = """
from importlib.metadata import entry_points
[script.load()() for script in entry_points(group='console_scripts', name='nbdev-export')]
"""
DRAW = """
from types import SimpleNamespace
import pandas as pd
from modit.repro.ours import baselines
from modit.repro.report.looks import look
from modit.settings import load_settings
s = load_settings('mini')
scores = {name: pd.read_csv(f'figures/mini/cases/{name}.csv.gz') for name in (*baselines.READS, 'baselines')}
p = SimpleNamespace(s=s, domains=s.domains, splits=('item', 'pattern'), grids={})
table = baselines.table(scores, p)['tab-baselines']
baselines.plot(scores, p)
assert 'halfway' in baselines.RIVALS and look('halfway').label == 'Half the probe'
assert baselines.grids_of(p)['halfway'] == (.2, .4)
print('columns', *table.frame.columns[2:])
"""


@pytest.mark.slow
def test_a_baseline_is_one_file(tmp_path):
    copy = copy_repository(tmp_path/'modit')
    page = copy/'nbs'/'150_baselines.ipynb'
    nb = json.loads(page.read_text())
    cell = next(c for c in nb['cells'] if 'BASELINES = dict(' in ''.join(c['source']))
    code = ''.join(cell['source']).replace('\nBASELINES = dict(\n', FUNCTION)
    cell['source'] = code.splitlines(keepends=True)
    page.write_text(json.dumps(nb, indent=1, ensure_ascii=False, sort_keys=True) + '\n')
    run_python(EXPORT, copy)
    columns = run_python(DRAW, copy).split('columns ')[-1].split()
    assert columns[:3] == ['average', 'sft', 'hppo'] and columns[-1] == 'filtered'
    assert 'halfway' not in columns
