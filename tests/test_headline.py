"""Made again: the headline's counts from the ledgers, counts of the groups from scores of cases."""
from functools import cache

import numpy as np
import pandas as pd
import pytest

from conftest import ROOT
from modit.repro.datasets.datasets import CLAIMED as PROFILES
from modit.repro.ours import lists
from modit.repro.pages.page import open_page
from modit.repro.report.report import read_cases
from test_figures import faults_of, texts_of

CLAIMS = ('C02', 'C09', 'C04', 'C13', 'C14', 'C18')


def cells(profile):
    return pd.read_csv(ROOT/'figures'/profile/'claim-cells.csv')


def count(rows):
    "How many intervals lie above 0 on the claim's side, and how many below."
    ends = np.sort(np.stack([rows.low*rows.side, rows.high*rows.side]), axis=0)
    holds, opposite = (ends[0] > 0).sum(), (ends[1] < 0).sum()
    return f'{holds} of {len(rows)}' + f', {opposite} ✕'*bool(opposite)


def check(text, rows):
    if not len(rows): return text == 'not run'
    return text == ' / '.join(count(part) for _, part in rows.groupby('split'))


@pytest.mark.parametrize('claim', CLAIMS)
def test_headline_counts_are_those_of_the_ledgers(claim):
    table = pd.read_csv(ROOT/'figures'/'mini'/'tab-headline.csv')
    row = table[table.iloc[:, 0].str.contains(claim)].squeeze()
    real = pd.concat(map(cells, PROFILES))
    assert check(row.iloc[1], cells('mini').query('id == @claim'))
    assert check(row.iloc[-1], real.query('id == @claim'))


def test_headline_has_the_gains_of_the_whole_pool():
    table = pd.read_csv(ROOT/'figures'/'mini'/'tab-headline.csv')
    gains = pd.read_csv(ROOT/'figures'/'mini'/'tab-labelled-gain.csv')
    rows = gains[gains.cases == gains.cases.max()].assign(side=1)
    text = table[table.iloc[:, 0].str.contains('C04')].iloc[0, 2]
    assert check(text, rows) and f'{gains.cases.max():,}' in table.columns[2]


# ---- groups of contrasts
VARIANTS = ('off_policy', 'adaptive', 'pareto', 'pareto_eps')
PAIRS = {
    'Supervised': [('average', 'pretrained'), ('cpt', 'pretrained'), ('sft', 'pretrained'),
                   ('sft', 'average'), ('sft', 'cpt')],
    'Ascending': [('ascending', 'random'), ('ascending', 'descending'), ('ascending', 'cpt')],
    'Preference': [(variant, 'sft') for variant in VARIANTS],
    'Three': [(f'seed{i}', 'sft') for i in (1, 2, 3)],
    'Which preference': [('adaptive', 'off_policy'), ('pareto', 'off_policy'), ('pareto', 'adaptive'),
                         ('pareto_eps', 'pareto')],
    'Which candidate': [('hybrid', 'static'), ('hybrid', 'policy'), ('static', 'policy')],
    'More rounds': [('4x', '2x'), ('2x', '1x')],
    'HPPO': [('hppo_single', 'sft_oracle')]}
SCORES = {'Ascending': 'order', 'Three': 'seeds', 'Which candidate': 'candidate_pool',
          'More rounds': 'rounds', 'HPPO': 'best_of_n'}


@cache
def cases(score, folder):
    found = pd.read_csv(ROOT/'figures'/'mini'/folder/'cases'/f'{score}.csv.gz')
    if score != 'rounds': return found
    short = found.method.str.replace(r"^(\d+x)\d+$", r"\1", regex=True) # steps follow a setting
    return found.assign(method=short)


@cache
def printed(score):
    "The paper's numbers, with the cell and the method as index."
    def read(name): return pd.read_csv(ROOT/'figures'/'reported'/f'tab-{name}.csv')
    if score == 'main':
        stages = read('progress')
        tables = [read(f'app{x}') for x in ('dc', 'dp', 'du', 'db')]
        table = pd.concat([*tables, stages[stages.method == 'cpt']])
    elif score == 'candidate_pool':
        table = read('cand').assign(domain='D1').rename(columns={'pool': 'method'})
    elif score == 'rounds':
        table = read('rollout').assign(domain='D1', method=lambda x: x.rounds.map('{}x'.format))
    else: table = read({'order': 'order', 'seeds': 'seed', 'best_of_n': 'appbon'}[score])
    return table.drop_duplicates(['domain', 'split', 'method']).set_index(['domain', 'split', 'method'])


def recount(row, folder=''):
    "A group's cells, same sign, size; the intervals are those of `contrasts`."
    words = next(words for words in PAIRS if row.group.startswith(words))
    score, column = SCORES.get(words, 'main'), row.metric.lower()
    means = cases(score, folder).groupby(['domain', 'split', 'method'])[column].mean()
    splits = {', items': ['item'], ', new patterns': ['pattern']}
    splits = next((x for end, x in splits.items() if row.group.endswith(end)), ['item', 'pattern'])
    ours, paper = [], []
    for domain in ('D1', 'D2', 'D3', 'D4'):
        for split in splits:
            for a, b in PAIRS[words]:
                gap = [x.get((domain, split, a), np.nan) - x.get((domain, split, b), np.nan)
                       for x in (means, printed(score)[column])]
                if np.isnan(gap).any() or abs(gap[1]) < 1e-9: continue
                ours.append(gap[0])
                paper.append(gap[1])
    ratio = np.array(ours)/np.array(paper)
    return len(ratio), (ratio > 0).sum(), np.median(ratio)


@pytest.mark.parametrize('folder', ['', 'runs/seed=1'])
def test_group_counts_are_those_of_the_scores(folder):
    table = pd.read_csv(ROOT/'figures'/'mini'/'tab-groups.csv')
    counts = ['cells'] + [f'{name} (seed 1)'*bool(folder) or name for name in ('same sign', 'size')]
    for _, row in table.dropna(subset=counts).iterrows():
        found, shown = recount(row, folder), [float(row[name]) for name in counts]
        assert list(found[:2]) == shown[:2], row.group
        assert abs(found[2] - shown[2]) <= .0051, row.group


# ---- the picture of real lists, which profile mini has not
@cache
def found():
    p = open_page('lists', profile='public')
    scores = {name: read_cases(p.folder, name) for name in (*lists.READS, *lists.SCORES)}
    return lists.plot(scores, p)['fig-found']


def test_the_lists_can_be_read(): assert not faults_of(found())


def words_of(figure): return [text.get_text() for text in texts_of(figure)[0]]


def test_the_lists_are_those_of_the_first_case():
    rows = pd.read_csv(ROOT/'figures'/'public'/'cases'/'lists.csv.gz')
    rows = rows.query('domain == "wordnet-verb" and split == "item"').sort_values('rank')
    drawn = [words.partition(' – ')[0].rstrip('…') for words in words_of(found())]
    for method in ('seeds', 'average', 'average_own', 'hppo'):
        for name in rows[rows.method == method].text.str.split(':').str[0].head(10):
            assert any(name.startswith(word) for word in drawn if word), f'{method}: {name} is not drawn'


def test_the_lists_count_what_the_scores_hold():
    rows = pd.read_csv(ROOT/'figures'/'public'/'cases'/'lists.csv.gz').query('domain == "wordnet-verb"')
    rows = rows[(rows.split == 'item') & rows.method.isin(lists.FINDERS)]
    wrong = {(0, 1): ' – no verb', (1, 0): ' – other kind', (0, 0): ' – neither'}
    drawn = words_of(found())
    for (attr, same), ending in wrong.items():
        mine = ((rows.attr == attr) & (rows.same == same)).sum()
        assert sum(words.endswith(ending) for words in drawn) == mine
    right = (rows.attr*rows.same).groupby(rows.method).sum()
    assert [f'{right[m]} of 10 right' in ' '.join(drawn) for m in lists.FINDERS] == [True]*3
    main = pd.read_csv(ROOT/'figures'/'public'/'cases'/'main.csv.gz').query('method == "average"')
    searches = main.dropna(subset='joint').groupby(['domain', 'split']).case.nunique().unique()
    assert any(f' {n} searches' in words for n in searches for words in drawn) and len(searches) == 1
