"How an experiment opens: a question, a short answer, and the intervals that its page prints."
import re

import pandas as pd
import pytest

from conftest import EXPERIMENTS
from style import cells, outputs_of

every_page = pytest.mark.parametrize('page', EXPERIMENTS, ids=lambda p: p.stem)


def first_cell(page):
    "The markdown under the title, links as their text alone."
    return re.sub(r'\[([^\]]+)\]\([^)\s]+\)', r'\1', cells(page, 'markdown')[0])


def answers(page, profile=''):
    "Text of the paragraphs that answer, without the profile in brackets; those of one profile, or all."
    return re.findall(rf'^\*\*Answer \(profile {profile}[^)]*\)\.\*\* +(.+)$', first_cell(page), re.M)


def printed(page):
    "Every three numbers that follow each other in a line of the page's stored outputs."
    shown = [''.join(output.get('data', {}).get('text/plain', ())) for output in outputs_of(page)]
    for line in '\n'.join(shown).splitlines():
        row = [float(number) for number in re.findall(r'(?<![\w.])[+-]?\d+\.\d+', line)]
        yield from zip(row, row[1:], row[2:], strict=False)


def agree(said, row):
    "Whether an estimate and its interval are a row of a page, or that row turned round; both are rounded."
    values = [float(x.replace('−', '-')) for x in said]
    near = [.5*10**-len(x.partition('.')[2]) + .0051 for x in said]
    turned = -row[0], -row[2], -row[1]
    return any(all(abs(a - b) <= e for a, b, e in zip(values, there, near, strict=True))
               for there in (row, turned))


@every_page
def test_a_short_answer_comes_first(page):
    found = answers(page)
    assert found, 'a paragraph that begins with **Answer (profile mini).**'
    assert max(len(text.split()) for text in found) <= 60, 'an answer has 60 words; numbers are in tables'


@every_page
def test_a_page_prints_the_intervals_of_its_answer(page):
    number = r'([+−-]?\d*\.?\d+)'
    for text in answers(page, 'mini'): # the profile of the stored outputs
        for said in re.findall(rf'{number}(?: [a-z]+| [A-Z]\w+|%)* \[{number}, {number}\]', text):
            assert any(agree(said, row) for row in printed(page)), f'{said} is in no stored output'


# ---- pages that count what the others say
def counted():
    "Counts that the answers of the last pages give, from the ledger and its tables."
    folder = EXPERIMENTS[0].parents[3]/'figures'/'mini'
    table = {name: pd.read_csv(folder/f'{name}.csv') for name in (
        'tab-classes', 'tab-replicate')}
    classes = table['tab-classes'].set_index('about')
    paper, ours = classes.drop('ours').sum(), classes.loc['ours']
    method, conditions, calibration = (classes.loc[c] for c in ('the method', 'conditions', 'calibration'))
    both, same, again = 'the same verdict in both', 'judged in a second world', table['tab-replicate']
    return {
        '495_replicate': [
            f'{paper[both] + ours[both]} of {paper[same] + ours[same]}',
            *map(str, (paper[both], paper[same], ours[both], ours[same])),
            *map(str, again[['shared', 'alike']].sum())],
        '500_claims': [
            f"{paper.confirmed} of the paper's {paper.statements}",
            *(f'{x.confirmed} of {x.statements}' for x in (method, conditions, calibration)),
            f'{paper["not seen at this scale"]}', f'{paper.opposite}', f'{ours.statements}',
            f'{ours.confirmed}']}


@pytest.mark.parametrize('name', ['495_replicate', '500_claims'])
def test_pages_that_count_have_the_ledger_s_counts(name):
    [page] = [page for page in EXPERIMENTS if page.stem == name]
    [text] = answers(page, 'mini')
    assert not [x for x in counted()[name] if not re.search(rf'(?<![\d.]){re.escape(x)}(?!\d)', text)]
