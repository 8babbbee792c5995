"""Made again in another way: the headline's counts from the ledgers, those of groups from scores of cases."""
import numpy as np
import pandas as pd
import pytest

from conftest import ROOT
from modit.repro.datasets.datasets import CLAIMED as PROFILES
from modit.repro.ours import lists
from modit.repro.pages.page import open_page
from modit.repro.report.report import read_cases
from test_figures import faults_of

MINI = ROOT/'figures'/'mini'
TABLE = pd.read_csv(MINI/'tab-headline.csv')


def cells(profile): return pd.read_csv(ROOT/'figures'/profile/'claim-cells.csv')


def count(rows):
    "How many intervals lie above 0 on the claim's side, and how many below."
    ends = np.sort(np.stack([rows.low*rows.side, rows.high*rows.side]), axis=0)
    holds, opposite = (ends[0] > 0).sum(), (ends[1] < 0).sum()
    return f'{holds} of {len(rows)}' + f', {opposite} ✕'*bool(opposite)


def counts(rows): return ' / '.join(count(part) for _, part in rows.groupby('split')) or 'not run'


@pytest.mark.parametrize('claim', ['C02', 'C09', 'C04', 'C13', 'C14', 'C18'])
def test_headline_counts_are_those_of_the_ledgers(claim):
    row = TABLE[TABLE.iloc[:, 0].str.contains(claim)].squeeze()
    assert row.iloc[1] == counts(cells('mini').query('id == @claim'))
    assert row.iloc[-1] == counts(pd.concat(map(cells, PROFILES)).query('id == @claim'))


def test_headline_has_the_gains_of_the_whole_pool():
    gains = pd.read_csv(MINI/'tab-labelled-gain.csv')
    rows = gains[gains.cases == gains.cases.max()].assign(side=1)
    assert TABLE[TABLE.iloc[:, 0].str.contains('C04')].iloc[0, 2] == counts(rows)
    assert f'{gains.cases.max():,}' in TABLE.columns[2]


# ---- groups of contrasts of the main table
VARIANTS = ('off_policy', 'adaptive', 'pareto', 'pareto_eps')
PAIRS = {'Supervised': [('average', 'pretrained'), ('cpt', 'pretrained'), ('sft', 'pretrained'),
                        ('sft', 'average'), ('sft', 'cpt')],
         'Preference': [(variant, 'sft') for variant in VARIANTS],
         'Which preference': [('adaptive', 'off_policy'), ('pareto', 'off_policy'), ('pareto', 'adaptive'),
                              ('pareto_eps', 'pareto')]}
SPLITS = {', items': ['item'], ', new patterns': ['pattern']}
CELL = ['domain', 'split', 'method']


def theirs():
    "The paper's numbers of the main table by domain, split and method."
    def read(name): return pd.read_csv(ROOT/'figures'/'reported'/f'tab-{name}.csv')
    rows = [*map(read, ('appdc', 'appdp', 'appdu', 'appdb')), read('progress').query('method == "cpt"')]
    return pd.concat(rows).drop_duplicates(CELL).set_index(CELL)


@pytest.mark.parametrize('folder, ending', [('.', ''), ('runs/seed=1', ' (seed 1)')])
def test_group_counts_are_those_of_the_scores(folder, ending):
    ours = pd.read_csv(MINI/folder/'cases'/'main.csv.gz').groupby(CELL).mean(numeric_only=True)
    names = [f'same sign{ending}', f'size{ending}']
    rows = pd.read_csv(MINI/'tab-groups.csv').dropna(subset=names).set_index('group')
    for group, row in rows[rows.index.str.startswith(tuple(PAIRS))].iterrows():
        [pairs] = [x for words, x in PAIRS.items() if group.startswith(words)]
        splits = next((x for end, x in SPLITS.items() if group.endswith(end)), ['item', 'pattern'])
        keys = [((d, x, a), (d, x, b)) for d in ('D1', 'D2', 'D3', 'D4') for x in splits for a, b in pairs]
        gaps = np.array([[x.get(a, np.nan) - x.get(b, np.nan) for x in (
            ours[row.metric.lower()], theirs()[row.metric.lower()])] for a, b in keys])
        gaps = gaps[~np.isnan(gaps).any(1) & (abs(gaps[:, 1]) > 1e-9)]
        ratio = gaps[:, 0]/gaps[:, 1]
        assert (len(ratio), (ratio > 0).sum()) == (row.cells, row[names[0]]), group
        assert abs(np.median(ratio) - row[names[1]]) <= .0051, group


def test_the_picture_of_real_lists_can_be_read(): # profile mini has none
    p = open_page('lists', profile='public')
    scores = {name: read_cases(p.folder, name) for name in (*lists.READS, *lists.SCORES)}
    assert not faults_of(lists.plot(scores, p)['fig-found'])
