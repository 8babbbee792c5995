"""Every number of the README, and all verdicts, computed again from single cases by pandas and numpy."""
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from conftest import ROOT

README, VERDICTS = ((ROOT/x).read_text('utf-8') for x in ('README.md', 'docs/paper.md'))
CELL, SPLITS = ['domain', 'split', 'case', 'pattern'], ('item', 'pattern')
MINI, PUBLIC = ['mini'], ['public', 'icons', 'tree']
TRAINED = ('main', 'sft') # file and method of MO-DiT
NAMES = r'arXiv \d+\.\d+|Apache-2\.0|\bD[1-4]\b|95% intervals?'


@pytest.mark.parametrize('name', ['readme', 'verdicts'])
def test_no_number_is_typed(name):
    text = (ROOT/'docs'/'article'/f'{name}.md').read_text('utf-8')
    text = re.sub(r'^```.*?^```', '', text, flags=re.M | re.S)
    text = re.sub(r'{%.*?%}|{{.*?}}|`[^`]*`|\]\([^)]*\)', ' ', text, flags=re.S)
    assert re.findall(r'\S*\d\S*', re.sub(NAMES, '', text)) == []


# ---- scores of single cases
def read(profile, name): return pd.read_csv(ROOT/'figures'/profile/'cases'/f'{name}.csv.gz')
def cells_of(words): return words.strip('| ').split(' | ')
def row_of(start, of=README): return cells_of(next(x for x in of.splitlines() if x.startswith(f'| {start}')))


def cases_of(profiles, file, method, of=None, metric='joint'):
    "A score of every case of a method; hppo: the variant that validation chose; of: one table of several."
    found = []
    for profile in profiles:
        rows, valid = read(profile, file), read(profile, 'validation')
        valid = valid[valid.method.isin(['off_policy', 'adaptive', 'pareto'])] # the first of equal ones
        best = valid.loc[valid.groupby('domain', sort=False).valid_joint.idxmax()].set_index('domain').method
        rows = rows[rows.of == of] if of else rows
        rows = rows[(file != 'filter') | (rows.domain != 'D4')] # where the paper's HPPO has no filter
        found.append(rows[rows.method == (rows.domain.map(best) if method == 'hppo' else method)])
    return 100*pd.concat(found).set_index(CELL)[metric].dropna()


def means(*which, **how): return cases_of(MINI, *which, **how).groupby(['domain', 'split']).mean()


def in_paper(metric):
    rows = pd.read_csv(ROOT/'figures'/'reported'/'tab-main.csv')
    return 100*rows.set_index(['domain', 'split', 'method'])[metric]


# ---- the first table
def test_the_first_table_is_that_of_the_scores():
    ours = [means(*x) for x in (('main', 'average'), TRAINED, ('printed', 'printed'), ('main', 'hppo'))]
    reported = in_paper('joint')
    for at in ours[0].index:
        beside = [f' ({reported[(*at, name)]:.1f})' for name in ('average', 'sft', 'hppo')] + ['']
        wanted = [f'{x[at]:.1f}{paper}' for x, paper in zip(ours, beside, strict=True)]
        assert row_of(', '.join(at))[1:] == wanted


# ---- the table of verdicts
def over_patterns(d):
    "Ends of Student's interval of a mean of differences, by pattern."
    sums = (d - d.mean()).groupby('pattern').sum()
    n = len(sums)
    half = t.ppf(.975, n - 1)*(n/(n - 1)*(sums**2).sum())**.5/len(d)
    return d.mean() - half, d.mean() + half


def over_cases(d): # the paper's bootstrap
    drawn = np.random.default_rng(0).integers(len(d), size=(4000, len(d)))
    return np.quantile(d.to_numpy()[drawn].mean(1), [.025, .975])


def verdicts(pairs, profiles, split, ends=None):
    "In how many domains a method is above all it is compared with, and below one of them."
    ends = ends or dict(item=[over_patterns, over_cases], pattern=[over_patterns])[split]
    found = {}
    for a, b in pairs:
        apart = (cases_of(profiles, *a) - cases_of(profiles, *b)).dropna().xs(split, level='split')
        for domain, d in apart.groupby('domain'):
            lows, highs = zip(*(of(d) for of in ends), strict=True)
            found[domain] = min(found.get(domain, 1), int(min(lows) > 0) - int(max(highs) < 0))
    signs = list(found.values())
    return f'{signs.count(1)}/{len(signs)}' + (f', {signs.count(-1)} below' if -1 in signs else '')


AVERAGE, HPPO, ONCE = ('main', 'average'), ('main', 'hppo'), ('main', 'off_policy')
ROWS = {
    'MO-DiT above averaging': ([(TRAINED, AVERAGE)], MINI, PUBLIC),
    '– random seeds': ([(('lead', 'sft', 'random'), ('lead', 'average', 'random'))], MINI),
    '– no related patterns': ([(('lead', 'sft', 'apart'), ('lead', 'average', 'apart'))], MINI),
    '– each domain trained alone': ([(('order', 'ascending'), AVERAGE)], MINI),
    '– alone, sequences unsorted': ([(('order', 'random'), AVERAGE)], MINI),
    'sorted sequences': ([(('order', 'ascending'), ('order', x)) for x in ('random', 'descending')],
                         MINI, PUBLIC),
    'HPPO as printed': ([(('printed', 'printed'), TRAINED)], MINI),
    'HPPO, our loss, above': ([(HPPO, TRAINED)], MINI, PUBLIC),
    '– each at its best': ([(('guidance_chosen', 'hppo chosen'), ('guidance_chosen', 'sft chosen'))], MINI),
    '– one round |': ([(ONCE, TRAINED)], MINI, PUBLIC),
    '– one round, no': ([(('printed', 'train_rewards'), TRAINED)], MINI),
    'Pareto filter': ([(('filter', f'Pareto {x}'), ('filter', f'Adaptive {x}')) for x in (1, 3)], MINI),
    'steered average above': ([(('own_direction', 'average_own'), HPPO)], MINI, PUBLIC)}


@pytest.mark.parametrize('start', ROWS)
def test_a_row_of_verdicts_is_that_of_the_scores(start):
    pairs, *worlds = ROWS[start]
    found = [verdicts(pairs, world, split) for world in worlds for split in SPLITS]
    assert row_of(start, VERDICTS)[1:] == found # from the left: cells that were not run are empty


def test_verdicts_of_the_readme_are_those_of_the_map():
    def rows(text): return text.split('| public, new |\n')[1].split('\n\n')[0].splitlines()[1:]
    assert len(rows(README)) == 8 and len(rows(VERDICTS)) == len(ROWS) + 1
    for name, *cells in map(cells_of, rows(README)):
        assert cells == row_of(name.partition(' (')[0], VERDICTS)[1:]


def test_verdicts_by_the_bootstrap_are_those_of_the_scores():
    found = [verdicts([(HPPO, TRAINED)], MINI, split, [over_cases]) for split in SPLITS]
    assert row_of("– intervals over requests", VERDICTS)[1:3] == found


# ---- lists of unlabelled items
BOARD = {'averaging': ('average', 'tests'), 'closeness and border': ('border', None),
         'MO-DiT': ('mo_dit', None), 'HPPO': ('hppo', None), 'one list': ('one_list', 'list_tests')}


def of_board(name, kinds):
    rows = pd.read_csv(ROOT/'figures'/'leaderboard'/'cases'/f'{name}.csv.gz')
    rows = rows[rows.kind.isin(kinds) & (rows.domain != 'icons-small')]
    return (100*rows.joint/rows.k).set_axis(pd.MultiIndex.from_frame(rows[[*CELL[:1], 'kind', *CELL[2:]]]))


def over_domains(d):
    "Mean over domains, with the ends of a bootstrap over the patterns of each."
    rng, draws = np.random.default_rng(0), []
    for _, x in d.groupby('domain'):
        sums = x.groupby('pattern').agg(['sum', 'count']).to_numpy()
        drawn = sums[rng.integers(len(sums), size=(4000, len(sums)))].sum(1)
        draws.append(drawn[:, 0]/drawn[:, 1])
    return d.groupby('domain').mean().mean(), *np.quantile(np.mean(draws, 0), [.025, .975])


@pytest.mark.parametrize('start', BOARD)
def test_a_row_of_lists_is_that_of_the_scores(start):
    line, = [x for x in README.split('ten items marked |')[1].splitlines() if x.startswith(f'| {start}')]
    for cell, name, kinds in zip(cells_of(line)[1:], (BOARD[start][0], *BOARD[start]),
                                 (['new', 'far'], ['known'], ['new', 'far']), strict=False):
        if not name: continue
        mean, *lead = (float(x) for x in re.findall(r'[+-]?[\d.]+', cell.replace('−', '-')))
        mine = of_board(name, kinds)
        assert round(mine.groupby('domain').mean().mean(), 1) == mean
        if not lead: continue
        found = over_domains(mine - of_board('average', kinds))
        assert round(found[0], 1) == lead[0] and found == pytest.approx(lead, abs=.2) # other draws


# ---- sentences
def numbers(words, of=README): return [float(x.replace(',', '')) for x in re.search(words, of).groups()]


def test_sentences_are_those_of_the_verdicts():
    words = r'patterns of (.) of (.) domains and loses on (.); on new patterns it loses on all (.)\.'
    won, domains, lost, new = re.search(words, README).groups()
    assert row_of('MO-DiT above averaging')[3:] == [f'{won}/{domains}, {lost} below', f'0/6, {new} below']
    kept = (means('order', 'ascending') - means(*AVERAGE))/(means(*TRAINED) - means(*AVERAGE))
    less = re.search(r'trained alone, (\w+), (\w+) and (\w+) keep less than half', README).groups()
    assert kept[list(less)].max() < .5 and kept.drop(list(less)).min() > .95
    assert set(kept.drop(list(less)).index.unique('domain')) == {'D3'}


def test_numbers_in_sentences_are_those_of_the_scores():
    gain = means('main', 'hppo', metric='attr') - means(*TRAINED, metric='attr')
    theirs = in_paper('attr').unstack().eval('hppo - sft')
    wanted = [x(y).round() for y in (gain, theirs) for x in (pd.Series.min, pd.Series.max)]
    assert numbers(r'raises Attr by (\d+) to (\d+) points .paper: (\d+) to (\d+)') == wanted
    whole = (means('printed', 'printed_whole') - means(*TRAINED)).round(1)
    wanted = [read('mini', 'labelled').cases.max(), whole['D1', 'item'], whole['D1', 'pattern']]
    assert numbers(r'As printed, ([\d,]+) labelled .* gain ([\d.]+) .*, ([\d.]+) on new', VERDICTS) == wanted


def test_counts_of_statements_are_those_of_the_ledgers():
    both = [pd.read_csv(ROOT/'figures'/'mini'/x/'claims.csv').set_index('id') for x in ('', 'runs/seed=1')]
    about = both[0][(both[0]['class'] == 'method') & (both[0].place != 'ours')].verdict
    wanted = [len(about), *((about == x).sum() for x in ('confirmed', 'opposite'))]
    assert numbers(r'(\d+) statements about the method, (\d+) are confirmed, (\d+) opposite') == wanted
    one, other = (x.verdict[x.verdict != 'not run'] for x in both)
    one, other = one.align(other, join='inner')
    theirs = both[0].place[one.index] != 'ours'
    wanted = [(one == other).sum(), len(one), (one == other)[theirs].sum(), theirs.sum()]
    assert numbers(r'repeats (\d+) of (\d+) verdicts \((\d+) of the (\d+) about', VERDICTS) == wanted
    theirs &= both[0]['class'][one.index] == 'method'
    wanted = [theirs.sum(), (one == other)[theirs].sum()]
    assert numbers(r'(\d+) were judged again in a second synthetic world, (\d+) with the same') == wanted
    costs = pd.read_csv(ROOT/'figures'/'mini'/'folder.csv').set_index('what')
    wanted = [costs['items'].iloc[0], *costs.cpu_seconds[['list_first', 'list_next']].round()]
    assert numbers(r'Among ([\d,]+) items, .* takes (\d+) CPU-seconds, each later list (\d+)') == wanted
