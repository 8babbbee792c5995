"""Counts of claims that pages state in words are those of the committed ledger."""
import json
import re

import pandas as pd
import pytest

from conftest import EXPERIMENTS, ROOT

MINI = ROOT/'figures'/'mini'


def prose(name):
    "All markdown of a page."
    page = next(p for p in EXPERIMENTS if p.stem == name)
    cells = json.loads(page.read_text())['cells']
    return '\n'.join(''.join(c['source']) for c in cells if c['cell_type'] == 'markdown')


@pytest.fixture(scope='module')
def ledger():
    claims = pd.read_csv(MINI/'claims.csv')
    return claims.assign(paper=claims.id.str.startswith('C'))


def counted(verdicts):
    "How many hold, are within noise and fail."
    return [int((verdicts == word).sum()) for word in ('holds', 'within noise', 'fails')]


def test_claims_and_checks_are_counted_right(ledger):
    text, (theirs, ours) = prose('500_claims'), (ledger[ledger.paper == x] for x in (True, False))
    a, b, c = counted(theirs.verdict)
    assert f"Of the paper's {len(theirs)} claims {a} hold, {b} are within noise and {c} fail" in text
    a, b, c = counted(ours.verdict)
    assert f'of our own {len(ours)} claims {a} hold, {b} are within noise and {c} fail' in text
    cells = pd.read_csv(MINI/'claim-cells.csv').query('id.str.startswith("C")').verdict
    hold, noise, fail = (f'{n} {word} ({100*n/len(cells):.0f}%)' for n, word in
                         zip(counted(cells), ('hold', 'are within noise', 'fail'), strict=True))
    assert f"of the {len(cells)} checks behind the paper's claims {hold}, {noise} and {fail}" in text


def test_reasons_are_counted_right(ledger):
    missed, text = ledger[~ledger.verdict.isin(['holds', 'not run'])], prose('490_why')
    bare = missed.why.str.startswith('Not explained')
    assert f'For {(~bare).sum()} of the {len(missed)} claims that do not hold' in text
    assert f'for {bare.sum()} none that was tried does' in text
    assert f'In {missed.why.str.startswith("Power").sum()} of the {(~bare).sum()} the reason is power' in text
    suspect = ', '.join(missed.id[missed.why.str.contains('305_deviations')])
    assert f'({suspect}) a suspect is named that has not been tested' in text


def test_rules_that_were_met_are_counted_right(ledger):
    text, why = prose('480_reasons'), ledger.set_index('id').why
    asked = [x for row in re.findall(r'^\| ([BC]\d.*?) \|', text, re.M) for x in row.split(', ')]
    bare = why[asked].str.startswith('Not explained').sum()
    for_these = f'Of the {len(asked)} verdicts in the table of rules below'
    assert f'{for_these} {len(asked) - bare} have a reason' in text
    assert f'and {bare} are not explained' in text


def test_both_worlds_are_counted_right():
    rows, text = pd.read_csv(MINI/'tab-replicate.csv'), prose('495_replicate')
    both = rows[rows.agree.isin(['yes', 'no'])]
    same = int((both.agree == 'yes').sum())
    assert f'of the {len(both)} claims that were judged in both worlds {same} have the same verdict' in text
    assert f'{len(both) - same} differ by one step' in text
    assert f'{rows.alike.sum()} of {rows.shared.sum()} verdicts are alike' in text and not rows.opposite.sum()
