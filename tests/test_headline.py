"""The counts of the headline table, made again from the cells of the ledgers."""
import re

import pandas as pd
import pytest

from conftest import ROOT

CLAIMS = ('C02', 'C09', 'C04', 'C13', 'C14', 'C18')


def cells(profile):
    return pd.read_csv(ROOT/'figures'/profile/'claim-cells.csv')


def counts(part):
    "Cells above, of all, below and neither, as a text such as '1 of 4 above, 3 neither' has them."
    held, of = map(int, re.match(r'(\d+) of (\d+) above', part).groups())
    others = {word: int(number) for number, word in re.findall(r'(\d+) (below|neither)', part)}
    return held, of, others.get('below', 0), others.get('neither', 0)


def counted(rows):
    "The same from the ends of the intervals."
    low, high = rows.low*rows.side, rows.high*rows.side
    below, above = pd.concat([low, high], axis=1).min(axis=1), pd.concat([low, high], axis=1).max(axis=1)
    return (below > 0).sum(), len(rows), (above < 0).sum(), ((below <= 0) & (above >= 0)).sum()


def check(text, rows):
    if text == 'not run' or not len(rows): return text == 'not run' and not len(rows)
    parts = dict(p.split(': ') for p in text.split('; ')) if ':' in text else {'all': text}
    split = {'items': rows[rows.split == 'item'], 'new patterns': rows[rows.split == 'pattern'], 'all': rows}
    return all(counts(words) == counted(split[name]) for name, words in parts.items())


@pytest.mark.parametrize('claim', CLAIMS)
def test_headline_counts_are_those_of_the_ledgers(claim):
    table = pd.read_csv(ROOT/'figures'/'mini'/'tab-headline.csv')
    row = table[table.iloc[:, 0].str.contains(claim)].squeeze()
    assert check(row.iloc[1], cells('mini').query('id == @claim'))
    assert check(row.iloc[2], cells('public').query('id == @claim'))


def test_headline_has_six_claims_in_three_columns():
    table = pd.read_csv(ROOT/'figures'/'mini'/'tab-headline.csv')
    assert table.shape == (len(CLAIMS), 3)
    domains = cells('mini').query('id == "C02"')
    assert f'({len(domains)} cells)' in table.columns[1]


def test_the_check_finds_a_wrong_count():
    rows = cells('mini').query('id == "C02"')
    assert not check('7 of 8 above, 1 neither', rows) and not check('not run', rows)
