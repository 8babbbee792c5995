"Asking for fewer domains, splits or cases than were scored reads the scores, and computes nothing."
import io
from contextlib import redirect_stdout

import pandas as pd
import pytest

from conftest import ROOT
from modit.repro.datasets.datasets import DATASETS, asks, pages_asked
from modit.repro.report.report import figures_dir, read_cases, write_cases
from modit.repro.pages import page as pages
from modit.stages import pipeline
from modit.repro.pages.notebooks import page_constant, short_name
from modit.repro.pages.parameters import owner_of, reads_of
from modit.repro.pages.page import open_page, page_module, pages_before
from modit.repro.pages.parameters import has_scores

LESS = dict(domains=['D1'], cases=100)


@pytest.fixture
def untrained(tmp_path, monkeypatch):
    "What is not committed is written elsewhere, and whoever asks for a corpus or a model is refused."
    def refuse(*given, **more): raise AssertionError('a stage is asked for')
    def folder(s, changed): return tmp_path if changed else figures_dir(s)
    monkeypatch.setattr(pipeline, 'make_stage', refuse)
    monkeypatch.setattr(pages, 'results_folder', folder)
    return tmp_path


@pytest.mark.parametrize('name', ['main', 'order', 'pareto', 'guidance'])
def test_less_is_read_without_a_stage(untrained, name):
    p = open_page(name, profile='mini', **LESS)
    with redirect_stdout(io.StringIO()): scores = p.scores(page_module(name))
    assert not p.made and not p.missing()
    for score in page_constant(name, 'SCORES'):
        whole = read_cases(ROOT/'figures'/'mini', score)
        kept = whole[whole.domain.isin(['D1', 'all'])]
        if 'case' in whole: kept = kept[kept.case < 100]
        pd.testing.assert_frame_equal(scores[score], kept.reset_index(drop=True))


def test_what_was_computed_before_is_not_replaced(untrained):
    p = open_page('order', profile='mini', **LESS)
    mine = pd.DataFrame(dict(domain=['D1'], split=['item'], case=[7]))
    write_cases(p.folder, 'order', mine)
    found = p.scores(None)['order']
    pd.testing.assert_frame_equal(found, mine, check_dtype=False, check_column_type=False)
    assert not p.made


@pytest.mark.parametrize('profile', [x for x in DATASETS if not asks(x, 'main')])
def test_a_page_reads_only_what_its_data_set_is_asked(profile):
    asked = pages_asked(profile)
    assert asked and all(has_scores(profile, name) for name in asked)
    for name in asked:
        assert {owner_of(score) for score in reads_of(name, profile)} <= {*asked}, name
        assert {short_name(x) for x in pages_before(name, profile)} <= {*asked}, name
    assert not has_scores(profile, 'bootstrap'), 'it reads the scores of the main table'
