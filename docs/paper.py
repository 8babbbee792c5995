"""The map of the paper: each of its tables and figures with our page, command, minutes, file and verdicts.
It is made from docs/article/verdicts.md, figures/reported/contents.csv and committed results;
`python docs/paper.py` writes it."""
import ast
import json
import re
from pathlib import Path

import pandas as pd

from modit.repro.report.front import verdicts
from modit.repro.report.looks import CONFIRMED, WORDS

ROOT = Path(__file__).resolve().parents[1]
REPORTED, OURS = ROOT/'figures'/'reported', ROOT/'figures'/'mini'
SHORT = dict( # the claims that rest on a table or figure, in a few words
    C01='averaging has the highest Same', C02='MO-DiT over averaging', C03='MO-DiT over pretrained',
    C04='HPPO over MO-DiT', C05a='HPPO raises Attr', C05b='HPPO lowers Same',
    C06a='AUC of averaging just below one half', C06b='AUC rises from averaging to MO-DiT to HPPO',
    C07='every stage raises Joint', C08='the untrained model retrieves nothing',
    C09='ascending over other orders', C10='MO-DiT over pretrained and over CPT',
    C11='one round over MO-DiT', C12='several rounds over one', C13='the filter raises Joint',
    C14='the filter keeps Same', C16a='both pools over static', C16b='static over policy alone',
    C17='more rounds at equal steps', C18="HPPO's one query over the best of eight",
    C19='an oracle over eight adds 15 to 27%', C20='guidance scale 3 is best',
    C21='margin and temperature matter little', C22='HPPO over MO-DiT in three runs',
    C23='accuracy on left-out patterns', C24a='the centroid has the higher Joint',
    C24b='top-1 and top-5 have the higher Attr', C24c='top-1 and top-5 have the lower Cond',
    C25a='Attr rises, Same falls', C25b='Joint peaks, then falls')
ABOUT = """# The paper's tables and figures, and what became of them

Every numbered table and figure of [the paper](https://arxiv.org/abs/2606.26899): the page that makes ours, \
the command, minutes, our file beside the paper's numbers, and the verdicts on [the claims](#the-claims) \
that rest on it. `modit run PAGE` draws from committed scores, in seconds. With `--fresh` it scores again; \
the minutes are those of the committed run, on one core, with the models of the four stages stored. \
`make main` trains these ({training} minutes, summed over processes) and runs the pages {main}; \
`make paper` runs all pages. The captions are in our own words.
"""
RULE = """## The claims

The paper makes {total} claims, {about}: {words}. {ours} more are our own. \
A claim says how many cells must support it significantly (all, unless it says otherwise). *Confirmed*: at \
least so many do. *Opposite*: not confirmed, and more cells contradict it significantly than support it. \
*why*: the reason, with the numbers of commit {commit}. Cells, and our own claims: \
[claims](../nbs/repro/verdicts/500_claims.ipynb), [claims.csv](../figures/mini/claims.csv).

The paper's data are private, so a confirmed claim has the claimed direction on other data, and no more. The \
authors have not been asked, so no claim is called wrong.
"""


def claims_of() -> tuple:
    "The paper's claims and our own, from the ledger."
    found = pd.read_csv(OURS/'claims.csv')
    return found[found.place != 'ours'], found[found.place == 'ours']


def linked(path, words=None): return f'[{words or path.name}](../{path.relative_to(ROOT).as_posix()})'


def command(
    page,      # of an experiment, without its number
    notebooks, # name: path
) -> str:
    "What makes a page's results again, as a link to the page."
    return linked(notebooks[page], f'`modit run {page}`')


def files_of(
    label, # of a table or figure of the paper
    page,  # of ours that makes it
) -> str:
    "Our table or figure, and the numbers that the paper prints."
    name = label.replace(':', '-')
    if label.startswith('fig'): return linked(OURS/f'{name}.svg')
    theirs = linked(REPORTED/f'{name}.csv', "the paper's")
    return f'[{name}](../figures/mini/{page}.md#{name}), {theirs}'


def minutes(seconds): return f'{seconds/60:.0f}' if seconds >= 60 else 'under 1'


def verdicts_on(
    label,  # of a table or figure of the paper
    claims, # the paper's
) -> str:   # such as confirmed: MO-DiT over averaging (C02)
    "The claims that rest on it, verdict by verdict."
    mine = claims[[label in place.split(', ') for place in claims.place]]
    found = {word: [f'{SHORT[x]} ({x})' for x in mine.id[mine.verdict == word]] for word in WORDS}
    return '; '.join(f'*{word}*: {", ".join(claims)}' for word, claims in found.items() if claims)


def markdown(rows) -> str: # dicts
    "A table in Markdown, no wider than its words."
    head, *lines = [[*rows[0]], ['---']*len(rows[0]), *([str(v) for v in row.values()] for row in rows)]
    return '\n'.join(f'| {" | ".join(line)} |' for line in (head, *lines))


def main_pages() -> list: # names
    "The pages of `make main`."
    listed = re.search(r'^MAIN = (\(.*?\))', (ROOT/'Snakefile').read_text('utf-8'), re.M | re.S)[1]
    return [name[4:] for name in ast.literal_eval(listed)]


def in_words(words) -> str: # a list
    return f'{", ".join(words[:-1])} and {words[-1]}'


def opening() -> str:
    "The first paragraph, with the minutes of training."
    run = pd.read_csv(OURS/'run-seconds.csv')
    training = run.seconds[~run.stage.str.match(r'\d')].sum()
    return ABOUT.format(main=in_words(main_pages()), training=minutes(training))


def counted(
    claims, # the paper's
    ours,   # our own
) -> str:
    "The rule, with the number of claims of each class and of each verdict."
    counts = claims.verdict.value_counts().reindex([*WORDS], fill_value=0)
    words = in_words([f'{n} *{word}*' for word, n in counts.items()])
    sort = claims['class'].value_counts().reindex(['method', 'condition', 'calibration'])
    about = '{} about the method, {} about conditions and {} about calibration'.format(*sort)
    [commit] = pd.read_csv(REPORTED/'reasons.csv').commit.unique()
    return RULE.format(total=len(claims), ours=len(ours), about=about, words=words, commit=commit)


def paper_map() -> str: # of docs/paper.md
    "All verdicts, the paper's contents by number, then its claims."
    notebooks = {path.stem[4:]: path for path in (ROOT/'nbs'/'repro').glob('*/*.ipynb')}
    manifest = json.loads((OURS/'manifest.json').read_text('utf-8'))
    seconds = {name: x['seconds'] for name, x in manifest.items()}
    (claims, ours), parts = claims_of(), [opening(), verdicts()]
    why = pd.read_csv(REPORTED/'reasons.csv').set_index('claim').reason
    contents = pd.read_csv(REPORTED/'contents.csv')
    for sort in ('Table', 'Figure'):
        rows = [{
            '': f'**{r.number}**', 'what it has': r.caption, 'page and command': command(r.page, notebooks),
            'minutes': minutes(seconds[r.page]), 'files': files_of(r.label, r.page),
            'claims': verdicts_on(r.label, claims)}
            for r in contents.itertuples() if r.number.startswith(sort)]
        parts.append(f'## {sort}s\n\n{markdown(rows)}\n')
    numbers = contents.set_index('label').number
    rows = [{
        'id': r.id, 'rests on': ', '.join(numbers.get(x, x) for x in r.place.split(', ')),
        'the paper says': r.statement,
        'cells for / against / all': f'{r.significant} / {r.against} / {r.cells}', 'verdict': r.verdict,
        'why': '' if r.verdict == CONFIRMED else why.get(r.id, ''),
        'page and command': command(r.page, notebooks)}
        for r in claims.itertuples()]
    return '\n'.join([*parts, counted(claims, ours), markdown(rows), ''])


if __name__ == '__main__': (ROOT/'docs'/'paper.md').write_text(paper_map(), 'utf-8')
