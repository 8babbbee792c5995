"""Tables of stored outputs are shown whole: a reader checks a sentence against the row that it quotes."""
import json
import re

import pytest

from conftest import EXPERIMENTS, LIBRARY

CUT = re.compile(r'\[?(\d+) rows [x×] (\d+) columns\]?')  # pandas says so beneath a frame that it shortens


def shown(page):
    "Index of a cell and what it shows as text, for every stored output."
    for i, cell in enumerate(json.loads(page.read_text())['cells']):
        for output in cell.get('outputs', ()):
            data = output.get('data', {})
            for kind in ('text/plain', 'text/html'): yield i, ''.join(data.get(kind, ''))
            yield i, ''.join(output.get('text', ''))


@pytest.mark.parametrize('page', LIBRARY + EXPERIMENTS, ids=lambda p: p.stem)
def test_no_table_is_cut(page):
    cut = sorted({(i, *found) for i, text in shown(page) for found in CUT.findall(text)})
    assert not cut, f'(cell, rows, columns) that hide some: pivot the table, or show all of it: {cut}'


def test_a_cut_table_is_seen():
    assert CUT.search('79  x  +1.0\n\n[80 rows x 5 columns]') and CUT.search('<p>80 rows × 5 columns</p>')
