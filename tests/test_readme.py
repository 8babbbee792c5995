"""The README: every number of its prose is computed here from the committed scores, its tables are the
committed ones, its commands and links exist, and its Python runs."""
import json
import re
from functools import cache

import pandas as pd
import pytest

from conftest import LABELS, LIBRARY, EXPERIMENTS, ROOT
from modit.report.report import with_hppo
from modit.settings import load_settings
from modit.report.verdicts import contrasts

README = (ROOT/'README.md').read_text()
REAL = ['tweets-positive', 'wordnet-freq', 'wordnet-verb', 'icons', 'wordnet-tree']
CLAIMED = ('public', 'icons', 'tree', 'tree-e5')  # profiles of the ledger of real data


def scores(name, profile='mini'): return pd.read_csv(ROOT/'figures'/profile/'cases'/f'{name}.csv.gz')


def prose():
    "The README without code, tables, links' targets and pictures."
    text = re.sub(r'<!-- tab-(\w+) -->.*?<!-- /tab-\1 -->', '', README, flags=re.S)
    text = re.sub(r'^```.*?^```', '', text, flags=re.M | re.S)
    text = re.sub(r'!\[[^]]*\]\([^)]*\)', '', text)
    return re.sub(r'\]\([^)]*\)', ']', text)


# ---- numbers
@cache
def main(profile='mini'):
    "Scores of the main page with the chosen variant as HPPO, beside those of other pages' methods."
    own = with_hppo(scores('main', profile), scores('validation', profile))
    others = [scores(name, profile) for name in ('baselines', 'own_direction', 'rule')
              if (ROOT/'figures'/profile/'cases'/f'{name}.csv.gz').exists()]
    return pd.concat([own, *others], ignore_index=True)


def means(profile='mini', column='joint'):
    "(domain, split) by method."
    return main(profile).groupby(['domain', 'split', 'method'])[column].mean().unstack()


def points(a, b, column='joint', profile='mini'):
    "Differences of two methods in every cell, in points, with their intervals."
    return contrasts(main(profile), [(a, b)], load_settings(profile), column).set_index(['domain', 'split'])


def span(values, digits=1):
    "The least and the greatest of some numbers, as the text writes them."
    return f'{min(values):.{digits}f} to {max(values):.{digits}f}'


def each(table, method, methods):
    "A method's percentages, a domain each, the best of these methods in bold."
    shown = (100*table[[*{*methods, method}]]).round()
    best = shown[method] == shown[list(methods)].max(axis=1)
    words = ((f'{v:.0f}', bold and method in methods) for v, bold in zip(shown[method], best, strict=True))
    return ' | '.join(f'**{word}**' if bold else word for word, bold in words)


def supervised():
    of = means()
    order = scores('order').groupby(['domain', 'split', 'method']).joint.mean().unstack()
    gains = order.ascending - order.random
    verdicts = [points('sft', 'average').verdict, *(
        contrasts(scores('order'), [('ascending', other)], load_settings('mini')).verdict
        for other in ('random', 'descending'))]
    assert all(len(v) == 8 and (v == 'for').all() for v in verdicts)
    return [f'in all {len(of)} synthetic tests; it finds {span(of.sft/of.average)} times as many',
            f'{span(100*gains)} points of Joint over random order']


def preferences():
    gain = points('hppo', 'sft')
    paper = pd.read_csv(ROOT/'figures'/'reported'/'tab-main.csv')
    paper = paper.set_index(['domain', 'split', 'method']).joint
    paper = (paper.xs('hppo', level='method') - paper.xs('sft', level='method')).xs('item', level='split')
    new = gain.xs('pattern', level='split')
    item = gain.xs('item', level='split')
    return [f'on items in {(item.verdict == "for").sum()} of {len(item)} synthetic domains, by '
            f'{span(100*item.estimate)} points of Joint (the paper: {span(100*paper)})',
            f'On new kinds it helps in {(new.verdict == "for").sum()} of {len(new)}']


def direct():
    rows = pd.concat([main(), scores('direct')])
    over = {name: contrasts(rows, [('direct', name)], load_settings('mini')).set_index(['domain', 'split'])
            for name in ('hppo', 'average_own')}
    item = {name: x.xs('item', level='split') for name, x in over.items()}
    new = {name: x.xs('pattern', level='split').verdict for name, x in over.items()}
    assert all((x.verdict == 'for').all() for x in item.values()) and (new['average_own'] == 'against').all()
    ahead, moved = (span(100*x.estimate) for x in item.values())
    return [f"{ahead} points above HPPO's and {moved} above the moved average's, "
            f'in {len(item["hppo"])} of {len(item["hppo"])} synthetic domains',
            f"above HPPO's in {(new['hppo'] == 'for').sum()} of {len(new['hppo'])}, "
            f"below the moved average's in all {len(new['hppo'])}"]


def direct_on_new_items():
    rows = scores('direct_new')
    over = {name: contrasts(rows, [('direct', name)], load_settings('mini')).set_index('domain')
            for name in ('hppo', 'average_own')}
    assert (over['hppo'].verdict == 'for').all()
    ahead = over['average_own'].verdict
    only, = ahead.index[ahead == 'for']
    assert (ahead != 'against').all()
    return [f"{span(100*over['hppo'].estimate)} points remain over HPPO, "
            f"and over the moved average only {only}'s"]


def rules():
    new = {profile: {name: points('rule', name, profile=profile).xs('pattern', level='split')
                     for name in ('average', 'average_own')}
           for profile in ('mini', 'public', 'icons', 'tree')}
    synthetic = new['mini']
    real = {name: pd.concat([new[x][name] for x in ('public', 'icons', 'tree')])
            for name in synthetic}
    assert (synthetic['average_own'].verdict == 'for').all()
    assert (real['average_own'].verdict != 'against').all()
    assert list(real['average_own'].index[real['average_own'].verdict == 'for']) == ['wordnet-verb']
    return [f"{span(100*synthetic['average'].estimate)} points above averaging's on synthetic data, "
            f"{span(100*real['average'].estimate)} on real data",
            f"in all {len(synthetic['average_own'])} synthetic domains and on verbs"]


def direct_on_real_items():
    over = pd.concat(contrasts(scores('rule_new', x), [('alone', 'average_own')], load_settings(x))
                     for x in ('public', 'tree'))
    assert (over.verdict == 'for').all()
    icons = contrasts(scores('rule_new', 'icons'), [('alone', 'average_own')], load_settings('icons'))
    assert icons.set_index('domain').verdict['icons'] == 'neither'
    return [f'{span(100*over.estimate)} points above the moved average on known kinds, except icons']


def labelled():
    share = pd.read_csv(ROOT/'figures'/'mini'/'tab-labelled-share.csv')
    share = share.query('split == "item"').set_index('domain')
    assert (share.share_whole - .5).abs().max() < .1 and list(share.index) == ['D1', 'D3']
    return ["with the paper's 50,000 labelled cases, half of it on D1 and D3",
            '50,000 labelled cases a domain']


def own_scales():
    rows = pd.read_csv(ROOT/'figures'/'mini'/'tab-guidance-chosen.csv').set_index(['split', 'domain'])
    below = ' and '.join(rows.verdict['pattern'].index[rows.verdict['pattern'] == 'against'])
    item = rows.verdict['item']
    return [f'its own best guidance scale, it helps on items in {(item == "for").sum()} of {len(item)} '
            f'and is below MO-DiT on new kinds of {below}']


def claimed(claim, profiles=CLAIMED):
    "The ledger's cells of a claim, of several profiles of real data."
    cells = [pd.read_csv(ROOT/'figures'/profile/'claim-cells.csv') for profile in profiles]
    return pd.concat(cells).query('id == @claim')


def real_gains():
    gain = points('hppo', 'sft', profile='public').xs('item', level='split')
    assert len(gain) == 3 and (gain.verdict == 'for').all()
    assert (points('hppo', 'average_own', profile='public').xs('item', level='split').verdict == 'for').all()
    others = claimed('C04', CLAIMED[1:]).query('split == "item"').estimate
    return [f'On real items it adds {span(100*gain.estimate)} on tweets, words and verbs, '
            f'and {span(100*others)} on icons and branches']


def above_averaging():
    real = claimed('C02')
    above, below = (side.groupby(real.split).sum() for side in (real.low > 0, real.high < 0))
    domains = real.groupby('split').size()
    assert above['pattern'] == 0 and below['pattern'] == domains['pattern']
    return [f'in {above["item"]} of {domains["item"]} domains; '
            f'on new kinds it is below averaging in all {below["pattern"]}']


def losses():
    tried = pd.read_csv(ROOT/'figures'/'mini'/'tab-loss.csv')
    ours, = tried[tried.settings == 'yes'].gain
    printed = tried.query('score_scale == 1 and anchor_scale == 1 and beta == .05 and tail_weight == .1').gain
    unseen, = tried.query('reward_items == "train"').gain
    assert len(printed) == 2 and printed.max() < .0025
    plain = tried.query('score_scale == 1 and anchor_scale == 1')
    assert plain.beta[plain.gain.idxmax()] == 16
    return [f"paper's loss {100*printed.max():.1f} points, "
            f'with stronger preferences {100*plain.gain.max():.1f}, ours {100*ours:.1f}',
            f'the gain on validation is {100*unseen:.1f} instead of {100*ours:.1f}']


def drifting():
    both = pd.read_csv(ROOT/'figures'/'mini'/'claim-cells.csv')
    cells, usual = both.query('id == "B25"'), both.query('id == "C13"')
    def counts(rows): return (rows.verdict == 'for').sum(), len(rows), (rows.verdict == 'against').sum()
    return ['it raises Joint in {} of {} tests and lowers it in {}'.format(*counts(cells)),
            'It raises Joint in {} of {} tests and lowers it in {}'.format(*counts(usual))]


def without_training():
    gain = points('average_own', 'hppo')
    assert (gain.verdict == 'for').all() and len(gain) == 8
    assert (points('average_own', 'hppo', 'same').estimate > 0).all()
    for profile in ('public', 'icons', 'tree'):
        for other in ('hppo', 'average'):
            real = points('average_own', other, profile=profile).xs('pattern', level='split')
            assert (real.verdict == 'for').all()
    return []


def over_averaging():
    cells = {profile: claimed('B26', [profile]) for profile in ('mini', *CLAIMED)}
    real = pd.concat([cells[profile] for profile in CLAIMED])
    own, every = 100*cells['mini'].estimate, pd.concat(cells)
    assert (every.low > 0).all()
    return [f'in all {len(every)} tests: by {span(own)} points in {len(own)} synthetic ones, '
            f'by {span(100*real.estimate)} in {len(real)} on real data']


SEES_LABELS = ['filtered', 'pattern_direction', 'feedback_labels']  # of the items that are searched


def filtering():
    found = means('public').loc['wordnet-verb', 'pattern']
    rest = found.drop(SEES_LABELS)
    assert found['filtered'] > rest.max()
    return [f"{100*found['filtered']:.0f}% of a filter's results are right; "
            f'the best method that does not see these labels has {100*rest.max():.0f}%']


def classifying():
    profiles = ('public', 'icons', 'tree')
    rows = pd.concat([points('average_own', 'reranked', profile=x) for x in profiles])
    ahead = rows.xs('pattern', level='split').verdict
    assert ahead['wordnet-verb'] == 'against' and (ahead.drop('wordnet-verb') != 'against').all()
    return []


def real_data():
    of = pd.concat([means(profile) for profile in ('public', 'icons', 'tree')])
    item, new = (of.xs(split, level='split').loc[REAL] for split in ('item', 'pattern'))
    rows = {'average': 'average', 'moved average': 'average_own', 'classifier': 'reranked',
            'HPPO': 'hppo', 'direct rewards': 'alone', 'rule': 'rule',
            'filter': 'filtered'}
    blind = [name for name in rows.values() if name not in SEES_LABELS]
    return [f'| {words} | {each(new, name, blind)} | {each(item, name, blind)} |'
            for words, name in rows.items()]


def listed():
    ranks = scores('ranks', 'public').query('domain == "wordnet-verb" and split == "item" and rank <= 10')
    right = ranks.groupby('method').joint.sum()[['average', 'average_own', 'hppo']]
    return ['{:.1f}, {:.1f} and {:.1f} of ten are right'.format(*right)]


def pictured():
    lists = scores('lists', 'icons').query('method != "seeds"')
    right = (lists.attr*lists.same).groupby(lists.method).sum()
    shown = lists.method.value_counts()['hppo']
    seen = means('public').xs('item', level='split')[['average', 'probe', 'average_own', 'hppo']]
    assert (seen.idxmax(axis=1) == 'hppo').all()
    return [f'The moved average has {right["average_own"]} of {shown} right, '
            f'averaging {right["average"]}, HPPO {right["hppo"]} (']


def scale():
    s, paper = load_settings('mini'), load_settings('paper')
    assert {round(a/b) for a, b in zip(paper.train_rows, s.train_rows, strict=True)} == {1000}
    return [f'vectors of {s.dim} dimensions in place of {paper.dim:,}',
            "a thousandth of the paper's training rows",
            f'{s.hppo_cases:,} labelled cases a round, where the paper labels {paper.hppo_cases:,} once']


def least():
    from modit.data.trouble import _LEAST_POSITIVES
    return [f'At least {_LEAST_POSITIVES} items must be positive']


def deviations():
    rows = pd.read_csv(ROOT/'figures'/'mini'/'tab-deviations.csv')
    return [f'{len(rows)} things differ from the paper']


def size():
    groups = pd.read_csv(ROOT/'figures'/'mini'/'tab-groups.csv').set_index('group')
    assert .17 <= float(groups['size']['Preference over SFT, items']) < .23
    return ["in the median a fifth of the paper's gain"]


def second_run():
    both = pd.read_csv(ROOT/'figures'/'mini'/'tab-kernels.csv')
    noise = pd.read_csv(ROOT/'figures'/'mini'/'tab-draws.csv').noise.median()
    return [f'keeps {(both.agree == "yes").sum()} of {len(both)} verdicts',
            f'differences of Joint have a standard deviation of {100*noise:.1f} points']


def ledger():
    table = pd.read_csv(ROOT/'figures'/'mini'/'tab-classes.csv').set_index('about')
    method = table.loc['the method']
    stated = f"Of the paper's {method.statements} statements about the method"
    return [f'{stated} {method.confirmed} are confirmed, '
            f'{method.opposite} are opposite, and the others were not seen at this scale']


STATED = (supervised, preferences, own_scales, real_gains, above_averaging, losses, drifting, direct,
          direct_on_new_items, rules, direct_on_real_items, labelled,
          without_training, over_averaging, filtering, classifying, real_data, listed, pictured,
          scale, least, deviations,
          size, ledger, second_run)


@pytest.mark.parametrize('facts', STATED, ids=lambda f: f.__name__)
def test_a_number_of_the_readme_is_what_the_scores_give(facts):
    flat = ' '.join(README.split())
    assert [fact for fact in facts() if fact not in flat] == []


NAMES = re.compile(r'arXiv \d+\.\d+|Slurm \d+\.\d+|'
                   r'\[\d+(?:_\w+)?\]|`[^`]*`|Python 3\.\d+|95%|Apache-2\.0|first 50'
                   r'|\(0, 1 or a score\)|\bD[1-4]\b|AVX-512|AVX2')


def test_no_number_of_the_readme_is_untested():
    text = ' '.join(prose().split())
    for fact in (fact for facts in STATED for fact in facts()): text = text.replace(fact, '')
    minutes = r'\b\d+ (?:to \d+ )?(?:hours?|minutes?|GB)\b'  # of a laptop, told in LOG.md
    left = re.findall(r'\S*\d\S*', re.sub(minutes, '', NAMES.sub('', text)))
    assert not left, f'numbers that no test computes: {left}'


# ---- tables, pages, code
def shown(name): return README.split(f'<!-- tab-{name} -->')[1].split(f'<!-- /tab-{name} -->')[0].strip()


def test_the_headline_is_the_committed_one():
    table = (ROOT/'figures'/'mini'/'tab-headline.md').read_text().strip()
    assert shown('headline') == table, 'copy figures/mini/tab-headline.md between its marks in README.md'


def test_the_readme_is_short():
    words = [w for w in README.split() if any(map(str.isalnum, w))]  # without bars of tables
    assert len(words) <= 2000


LISTS = {'library': (LIBRARY, 'nbs/README.md'), 'experiments': (EXPERIMENTS, 'nbs/experiments/README.md')}


@pytest.mark.parametrize('pages, text', LISTS.values(), ids=LISTS)
def test_every_page_is_listed_in_its_folder(pages, text):
    listed = (ROOT/text).read_text()
    folder = (ROOT/text).parent
    assert not [p.stem for p in pages if f']({p.relative_to(folder).as_posix()})' not in listed]


def test_the_list_of_experiments_has_their_questions():
    listed = (ROOT/'nbs'/'experiments'/'README.md').read_text()
    for page in EXPERIMENTS:
        [title, *_] = ''.join(json.loads(page.read_text())['cells'][0]['source']).splitlines()
        title = title.lstrip('# ')
        assert f'({page.name}) | {title} |' in listed, f'{page.stem} asks "{title}"'


def test_every_artefact_of_the_paper_is_committed():
    numbers = {p.stem for p in (ROOT/'figures'/'reported').glob('tab-*.csv')}
    assert {label for label in LABELS if label.startswith('tab')} == numbers
    for label in LABELS:
        assert [*(ROOT/'figures'/'mini').glob(f'{label}.*')], f'figures/mini holds no {label}'


def test_readme_makes_a_list_without_training(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'runs'))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r'^```python\n(.*?)^```', README, re.M | re.S)
    block, = [b for b in blocks if '# without training' in b]
    exec(block, {})
    assert capsys.readouterr().out.splitlines() == re.findall(r'^# (\w+ +\d\.\d+)$', block, re.M)
