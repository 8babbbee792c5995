"""The leaderboard: the split by brute force, rows against naive versions, refusals, the same lists again."""
import inspect
import json

import numpy as np
import pandas as pd
import pytest

from modit.cli.command import main
from modit.repro.leaderboard.labels import odds
from modit.repro.leaderboard.scores import choose, score, tracks_of
from modit.repro.leaderboard.split import ROLES, SMALL, open_board, pattern_roles
from modit.repro.leaderboard.table import TRAINED, home, read_rows
from modit.repro.leaderboard.unlabelled import ROWS
from modit.store import stream


@pytest.fixture(scope='module')
def board(): return open_board(SMALL)


# ---- the split


def test_whole_families_are_far():
    family = np.repeat(np.arange(20), 5)
    role = pattern_roles(np.full(100, 50), 20, (10, 5), stream(0, 'test'), family)
    far = role == ROLES.index('far')
    assert far.sum() == 20 and all(len(set(far[family == f])) == 1 for f in range(20))
    assert (role == ROLES.index('new')).sum() == 10 and (role == ROLES.index('valid new')).sum() == 5
    with pytest.raises(ValueError, match='100 patterns have 20 positives; 300 are to be new'):
        pattern_roles(np.full(100, 50), 20, (200, 100), stream(0, 'test'))


@pytest.mark.parametrize('order', ['random', 'sorted'])
def test_seeds_are_unlabelled_right_items_of_patterns_of_their_role(board, order):
    seen = {}
    for role in ('known', 'new', 'valid known', 'valid new'):
        cases = board.cases(role, 80, order)
        own = np.concatenate([cases.seeds, cases.hidden], 1)
        assert board.attribute[own].all() and not board.labelled[own].any()
        assert (board.pattern[own] == cases.pattern[:, None]).all()
        assert all(len(set(row)) == len(row) for row in own.tolist())
        seen[role] = set(cases.pattern.tolist())
        assert np.array_equal(open_board(SMALL).cases(role, 80, order).seeds, cases.seeds)
    assert sum(map(len, seen.values())) == len(set.union(*seen.values()))


# ---- rows
@pytest.mark.parametrize('name', ROWS)
def test_a_row_lists_unlabelled_items_and_the_same_again(board, name):
    method, k, cases = ROWS[name], board.k, board.cases('known', 3)
    given = {constant: values[-1] for constant, values in method.grid.items()}
    if 'truth' in inspect.signature(method).parameters: given['truth'] = board.attribute, board.pattern
    if 'ask' in inspect.signature(method).parameters: given['ask'] = lambda ids: board.attribute[ids]*1.
    lists = [method(board.items, cases.seeds, board.labels, board.patterns, k, **given) for _ in range(2)]
    assert np.array_equal(*lists) and lists[0].shape == (3, k)
    for ids, seeds in zip(lists[0], cases.seeds, strict=True):
        assert np.isnan(board.labels[ids]).all() and len(set(ids)) == k and not set(ids) & set(seeds)
    assert len(inspect.getsource(method.__wrapped__).split('\n')) <= 16


def naive_average(items, seeds, labels, patterns, k):
    close = [-np.inf if i in seeds or not np.isnan(labels[i]) else float(x @ items[seeds].mean(0))
             for i, x in enumerate(items)]
    return np.argsort(-np.array(close), kind='stable')[:k]


@pytest.mark.parametrize('heat', [.03, .1])
def test_two_scores_are_their_formula(board, heat):
    seeds = board.cases('known', 1).seeds
    given = dict(how='logistic', heat=heat, lam=.5, beta=10.)
    ids = ROWS['two_scores'](board.items, seeds, board.labels, board.patterns, board.k, **given)[0]
    right = board.labels == 1
    members = [right & (board.patterns == c) for c in set(board.patterns[right].tolist())]
    P = np.stack([board.items[mine].mean(0) for mine in members if mine.sum() >= 5])
    P /= np.linalg.norm(P, axis=1, keepdims=True)
    mean = board.items[seeds[0]].mean(0)/np.linalg.norm(board.items[seeds[0]].mean(0))
    p = np.exp((P @ mean - 1)/.02)
    free = np.flatnonzero(~board.labelled)
    of = np.exp((board.items[free] @ P.T - 1)/heat)
    belongs = np.log(of @ (p/p.sum())/of.sum(1))
    likely = -np.log1p(np.exp(-odds(board.items, board.labels, 'logistic')))
    s = np.where(np.isin(free, seeds), -np.inf, belongs + .5*likely + 10*(board.items[free] @ mean))
    assert set(ids) == set(free[np.argsort(-s)[:board.k]])


def test_no_row_loses_to_its_own_parts_on_validation(board):
    def found(name): # on the requests from which the constants are chosen
        given = choose(ROWS[name], board, tracks_of(ROWS[name])[0], 'new', 30)
        return score(ROWS[name], board, tracks_of(ROWS[name])[0], 'valid new', 30, **given).joint.mean()
    assert min(found('two_logistic'), found('one_list'), found('fusion')) >= found('average')


def test_tests_find_what_is_right_and_cost_ten(board):
    asked = []
    def method(items, seeds, labels, patterns, k, ask):
        ids = naive_average(items, seeds, labels, patterns, k)
        asked.append(ask(ids[:6]))
        asked.append(ask(ids[6:10]))
        return ids
    rows = score(method, board, 'tests', 'new', 2)
    assert [int(np.concatenate(asked[i:i + 2]).sum()) for i in (0, 2)] == rows.joint.tolist()
    def greedy(items, seeds, labels, patterns, k, ask): return ask(np.arange(11))
    with pytest.raises(ValueError, match='a request has 10 tests; 11 were asked for'):
        score(greedy, board, 'tests', 'new', 1)


# ---- a function of somebody's
GOOD = """
    close = items @ items[seeds].mean(0)
    close[seeds] = -np.inf
    close[~np.isnan(labels)] = -np.inf
    return np.argsort(-close)[:k]"""


def written(path, body):
    text = f'import numpy as np\ndef method(items, seeds, labels, patterns, k):\n    {body}\n'
    path.write_text(text, 'utf-8')
    return f'{path}:method'


def refusal(capsys, *argv): # the one line of an error
    with pytest.raises(SystemExit, match='2'): main(['leaderboard', *argv])
    said = capsys.readouterr().err
    assert said.count('\n') == 1
    return said


@pytest.mark.parametrize('body, says', [ # page scores has the others
    ('return [*seeds, *range(k)][:k]', 'a seed stands in the list'), ('return 1/0', 'ZeroDivisionError')])
def test_a_wrong_answer_is_one_line_with_the_request(tmp_path, capsys, body, says):
    said = refusal(capsys, written(tmp_path/'mine.py', body), '--domains', SMALL)
    assert says in said and 'request 0 of' in said


def test_a_function_of_five_lines_has_its_row(tmp_path, capsys):
    place = written(tmp_path/'mine.py', GOOD)
    main(['leaderboard', place, '--domains', SMALL])
    said = capsys.readouterr().out
    assert said.count('+0.0 [+0.0, +0.0]') == 6 and 'ten items checked' not in said and 'MB at most' in said
    assert 'no domain' in refusal(capsys, place, '--domains', 'nosuch')
    (tmp_path/'none.py').write_text('method = 1/0', 'utf-8')
    assert 'ZeroDivisionError' in refusal(capsys, f'{tmp_path}/none.py:method')
    for place in (f'{tmp_path}/mine.py:nosuch', 'nosuch.py:method', 'mine'): refusal(capsys, place)


# ---- what is committed
def test_rows_are_whole_and_of_the_same_requests():
    rows = read_rows()
    assert set(rows) <= {*ROWS, *TRAINED}
    keys = ['domain', 'kind', 'case', 'pattern']
    base = rows['average'].set_index(keys).index
    for name, scores in rows.items():
        assert set(scores.set_index(keys).index) <= set(base), name
        assert (scores.joint <= scores[['same', 'attr', 'k']].min(axis=1)).all(), name


AGAIN = dict(average=.02, pu_logistic=.3, steered=.3, two_logistic=.3, one_list=.3, list_tests=.3) # of ten


@pytest.mark.parametrize('name', AGAIN)
def test_committed_scores_are_computed_again(board, name):
    "With the constants that were chosen then; the last bit of a sum may exchange a few items."
    chosen = pd.read_csv(home()/'chosen.csv').query('domain == @SMALL and method == @name')
    kept = read_rows()[name].query('domain == @SMALL')
    for row in chosen.itertuples():
        scores = score(ROWS[name], board, row.track, row.kind, **json.loads(row.constants))
        mine = kept[(kept.track == row.track) & (kept.kind == row.kind)].reset_index(drop=True)
        assert (scores.joint - mine.joint).abs().mean() < AGAIN[name], (row.track, row.kind)


def test_no_function_of_anybody_s_is_given_the_truth(board):
    def method(items, seeds, labels, patterns, k, truth): return seeds
    with pytest.raises(ValueError, match="missing 1 required positional argument: 'truth'"):
        score(method, board, 'labels', 'new', 1)
