"""What a run leaves says what it read and wrote. Whatever is changed afterwards, the next graph makes exactly
that again, and says what: scores, tables, figures, data, settings, marks, a second clone with the same runs.
"""
import json
import re
import shutil

import pandas as pd
import pytest

from conftest import ROOT, copied, results, run_apart
from modit.repro.datasets.datasets import DATASETS, asks
from modit.repro.pages import marks, page, redraw
from modit.repro.pages.marks import drop_stale, facts_of, has_run, run_marker
from modit.repro.pages.notebooks import short_name
from modit.repro.pages.page import has_scores, open_page
from modit.repro.pages.parameters import owner_of, pages_before, reads_of
from modit.repro.report.ledger import judge, update_claims
from modit.repro.report.report import (Table, figures_dir, read_cases, read_rows, write_cases,
                                       write_tables)
from modit.settings import load_settings
from modit.stages import pipeline
from modit.stages.source import code_of, sources
from test_runs import MAIN_RUN, finish, kill_when, made_in, messages

ROWS = pd.DataFrame(dict(domain='D1', split='item', case=[0, 1], method='sft', joint=[.1, .2]))
CELLS = pd.DataFrame(dict(domain='007', split='item', estimate=[.1], low=.05, high=.2, n=9, verdict='for'))


def leave(name):
    "The mark that a run leaves, over what lies there."
    mark, given = run_marker(load_settings('smoke'), name), dict(profile='smoke', fresh=True)
    told = dict(mark=mark.name, parameters=given, facts=facts_of(open_page(name, **given)))
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(json.dumps(told), 'utf-8')


@pytest.fixture
def smoke(tmp_path, monkeypatch):
    "Made-up results of the main page, and of one that reads them."
    monkeypatch.setenv('MODIT_RUNS', str(tmp_path/'runs'))
    monkeypatch.setattr(page, 'results_folder', lambda s, changed: tmp_path)
    for name in ('main', 'validation', 'bootstrap'): write_cases(tmp_path, name, ROWS)
    write_tables(tmp_path, 'main', {'tab-main': Table(ROWS, '')}, ['fig-main'])
    (tmp_path/'fig-main.svg').touch()
    update_claims(tmp_path, [judge('C02', CELLS)])
    for name in ('main', 'bootstrap'): leave(name)
    return tmp_path


HARM = {
    'validation': lambda at: write_cases(at, 'validation', ROWS[:1]),
    'main': lambda at: (at/'cases'/'main.csv.gz').write_bytes(b'cut off'),
    'tab-main.csv': lambda at: (at/'tab-main.csv').write_text('x\n1\n', 'utf-8'),
    'fig-main.svg, gone': lambda at: (at/'fig-main.svg').unlink(),
    'fig-main.svg': lambda at: (at/'fig-main.svg').write_text('drawn by hand', 'utf-8'),
    'main.md': lambda at: (at/'main.md').write_text('## tab-main\n\nby hand', 'utf-8'),
    'its claims': lambda at: update_claims(at, [judge('C02', CELLS.assign(high=.3))])}


@pytest.mark.parametrize('harm', HARM)
def test_a_mark_holds_until_something_is_changed(smoke, capsys, harm):
    assert drop_stale('smoke') == [] and has_run('smoke', '320_main')
    HARM[harm](smoke)
    assert not has_run('smoke', '320_main')
    read_too = ['380_bootstrap']*(harm in ('validation', 'main'))
    assert drop_stale('smoke') == ['320_main', *read_too]
    assert f'320_main is out of date (changed since: {harm.partition(",")[0]})' in capsys.readouterr().out


def test_a_mark_that_was_copied_or_cut_off_is_dropped(smoke):
    mark, other = (run_marker(load_settings('smoke'), 'main', **x) for x in ({}, dict(seed=1)))
    shutil.copy(mark, other)
    assert drop_stale('smoke') == ['320_main'] and mark.exists() and not other.exists()
    mark.write_bytes(mark.read_bytes()[:40])
    assert drop_stale('smoke') == ['320_main'] and not mark.exists()


def test_what_reads_a_page_is_out_of_date_when_its_scores_change(smoke, monkeypatch):
    first = read_cases(smoke, 'main')
    write_cases(smoke, 'main', ROWS[:1])
    leave('main')
    assert drop_stale('smoke') == ['380_bootstrap']
    monkeypatch.setattr(marks, 'execute', lambda *given: write_cases(smoke, 'main', first))
    marks.run_notebook('bootstrap', 'smoke', fresh=True)
    assert not has_run('smoke', '380_bootstrap'), 'they were replaced while it ran'


def test_what_computes_reads_only_scores_that_a_mark_vouches_for(smoke, monkeypatch):
    made = []
    monkeypatch.setattr(page.Page, 'scores', lambda self, run: made.append(self.name))
    monkeypatch.setattr(marks, '_MADE', set())
    def read(**given): return open_page('bootstrap', profile='smoke', **given).read_other('main')
    read(fresh=True)
    write_cases(smoke, 'main', ROWS[:1])  # by another setting, or by other code
    read()
    assert made == [], 'a mark holds these, and who draws takes what is there'
    for _ in range(2): read(fresh=True)
    assert made == ['main'], 'once for all of its scores'


def test_what_is_edited_while_a_page_runs_leaves_no_mark(smoke, monkeypatch):
    mark = run_marker(load_settings('smoke'), 'main')
    monkeypatch.setattr(marks, 'execute', lambda *given: None)
    mark.unlink()
    with monkeypatch.context() as m, pytest.raises(ValueError, match='edited while it ran'):
        m.setitem(sources(), 'flow', 'x = 1')
        code_of.cache_clear()
        marks.run_notebook('main', 'smoke', fresh=True)
    code_of.cache_clear()
    assert not mark.exists()
    marks.run_notebook('main', 'smoke', fresh=True)
    assert mark.exists()


def test_a_sweep_trusts_no_mark_whose_page_read_other_scores(smoke, monkeypatch):
    mark, given = run_marker(load_settings('smoke'), 'bootstrap', seed=1), dict(profile='smoke', seed=1)
    _, own, p = redraw._combination('380_bootstrap', dict(seed='1'), 'smoke')
    mark.write_text(json.dumps(dict(mark=mark.name, parameters=given, facts=facts_of(p))), 'utf-8')
    assert redraw._is_done('380_bootstrap', own, p)
    write_cases(smoke, 'main', ROWS[:1])
    assert not redraw._is_done('380_bootstrap', own, p)


def test_results_of_a_page_that_had_another_name_go(smoke):
    write_tables(smoke, 'main_table', {'tab-main': Table(ROWS[:1], '')})
    assert not (smoke/'main.md').exists() and (smoke/'main_table.md').exists()


def test_the_papers_tables_are_in_the_name_of_a_mark(monkeypatch, tmp_path):
    (tmp_path/'figures').mkdir()
    for name in ('data_synth', 'figures/reported'): copied(ROOT/name, tmp_path/name)
    monkeypatch.setattr(marks, 'repo_root', lambda: tmp_path)
    s, table = load_settings('smoke'), tmp_path/'figures'/'reported'/'tab-main.csv'
    before = run_marker(s, 'main')
    table.write_text(table.read_text('utf-8').replace('1', '2'), 'utf-8')
    assert run_marker(s, 'main') != before


def test_equal_scores_are_equal_bytes_under_every_python(smoke):
    head = (smoke/'cases'/'main.csv.gz').read_bytes()[:10]
    assert head.hex() == '1f8b0800000000000203', 'a time, or a byte that depends on the Python'


def test_names_are_words_in_a_ledger(smoke):
    words = ['007', '1e3']
    update_claims(smoke, [judge('C04', pd.concat([CELLS.assign(domain=x) for x in words]))])
    update_claims(smoke, [judge('C02', CELLS)])
    cells = read_rows(smoke/'claim-cells.csv').set_index('id')
    assert cells.domain['C04'].tolist() == sorted(words) and cells.domain['C02'] == '007'


def test_importing_changes_nobodys_options():
    state = """[pandas.options.display.max_colwidth, pandas.options.mode.string_storage, numpy.geterr(),
                numpy.get_printoptions(), torch.get_default_dtype(), torch.get_num_threads(),
                dict(matplotlib.rcParams)]"""
    ours = 'modit.repro.pages.redraw, modit.repro.verdicts.claims'
    first = 'import matplotlib.pyplot, numpy, pandas, torch'
    run = run_apart(f'{first}; a = {state}; import {ours}; assert a == {state}')
    assert run.returncode == 0, run.stderr[-2000:]


# ---- scores of a run with other values
def test_what_was_computed_before_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, 'make_stage', None) # would fail if it were called
    monkeypatch.setattr(page, 'results_folder', lambda s, changed: tmp_path if changed else figures_dir(s))
    p = open_page('order', profile='mini', domains=['D1'], cases=100)
    mine = pd.DataFrame(dict(domain=['D1'], split=['item'], case=[7]))
    write_cases(p.folder, 'order', mine)
    found = p.scores(None)['order']
    pd.testing.assert_frame_equal(found, mine, check_dtype=False, check_column_type=False)
    assert not p.made


@pytest.mark.parametrize('profile', [x for x in DATASETS if not asks(x, 'main')])
def test_a_page_reads_only_what_its_data_set_is_asked(profile):
    asked = DATASETS[profile].pages
    assert asked and all(has_scores(profile, name) for name in asked)
    for name in asked:
        assert {owner_of(score) for score in reads_of(name, profile)} <= {*asked}, name
        assert {short_name(x) for x in pages_before(name, profile)} <= {*asked}, name
    assert not has_scores(profile, 'bootstrap'), 'it reads the scores of the main table'


# ---- whole runs
def ran(copy, *words):
    "Run the graph to its end: the pages that ran, and all that was said."
    before = len(messages(copy)) if (copy/'messages.txt').exists() else 0
    finish(copy, *(words or MAIN_RUN))
    said = messages(copy)[before:]
    return sorted(re.findall(r'^(\d{3}_\w+): start', said, re.M)), said


@pytest.mark.slow
def test_a_setting_that_was_put_back_makes_its_page_again(whole, tmp_path):
    "And no stage: files go one by one, and a page whose scores were made by hand, with its reader."
    copy, made = copied(whole, tmp_path/'modit'), made_in(whole)
    settings = (copy/'settings.ini').read_text('utf-8')
    other = re.sub(r'(?s)(\n\[smoke\]\n.*?\nauc_cases = )\d+', r'\g<1>55', settings)
    assert other != settings
    (copy/'settings.ini').write_text(other, 'utf-8')
    ran(copy, 'run', 'data', '--fresh', '--profile', 'smoke')
    (copy/'settings.ini').write_text(settings, 'utf-8')
    smoke = copy/'figures'/'smoke'
    write_cases(smoke, 'main', read_cases(smoke, 'main')[:-1])
    next(smoke.glob('fig-den*.svg')).unlink()
    pages, said = ran(copy)
    assert pages == ['300_data', '310_density', '320_main', '380_bootstrap'] and made_in(copy) == made
    assert '300_data is out of date (changed since: ' in said and 'fig-density' in said
    assert ran(copy)[0] == []


@pytest.mark.slow
def test_a_second_clone_with_the_same_runs_makes_its_own_results(whole, tmp_path):
    "Killed on the way, too; the first clone has nothing left to do afterwards."
    first, second = copied(whole, tmp_path/'first'), copied(whole, tmp_path/'second')
    shutil.rmtree(second/'figures'/'smoke')
    shutil.rmtree(second/'runs')
    (second/'runs').symlink_to(first/'runs')
    kill_when(second, 'figures/smoke/cases/data.*', 0)
    assert '300_data' in ran(second)[1] and results(second) == results(whole)
    assert ran(first)[0] == [] and made_in(first) == made_in(whole)
