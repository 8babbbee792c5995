"""The map of the paper: each of its tables and figures with our page, command, minutes, file and verdicts.
It is made from figures/reported/contents.csv and committed results; `python docs/paper.py` writes it."""
import ast
import json
import re
from pathlib import Path

import pandas as pd

from modit.repro.report.looks import CONFIRMED, WORDS

ROOT = Path(__file__).resolve().parents[1]
REPORTED, OURS = ROOT/'figures'/'reported', ROOT/'figures'/'mini'
NONE = 'none'
ABOUT = """# The paper's tables and figures, and what became of them

Every numbered table and figure of [the paper](https://arxiv.org/abs/2606.26899): the page that makes ours, \
the command, minutes, our file beside the paper's numbers, and the verdicts on [the claims](#the-claims) \
that rest on it. `modit run PAGE` draws from committed scores, in seconds. With `--fresh` it scores again; \
the minutes are those of the committed run, on one core, with the models of the four stages stored. \
`make main` trains these ({training} minutes, summed over processes) and runs the pages {main}; \
`make paper` runs all pages. The captions are in our own words.
"""
RULE = """## The claims

The {total} claims of the paper: {words}. A claim says how many cells must support it significantly (all, \
unless it says otherwise). *Confirmed*: at least so many do. *Opposite*: not confirmed, and more cells \
contradict it significantly than support it. *why*: the reason, with the numbers of commit {commit}. \
Cells, and our own claims: \
[claims](../nbs/repro/verdicts/500_claims.ipynb), \
[claims.csv](../figures/mini/claims.csv).

The second word follows [a rule](https://yourpaperiswrong.com/methodology) of reproduction tracks. \
REPRODUCED: all numbers within a tolerance that was published before, on the paper's data, three seeds or \
more. PARTIAL: the claimed direction, but on other data or one seed. WRONG: the other direction in every \
seed and with two models, 72 hours after the authors were told. The paper's data are private, so no claim \
can be REPRODUCED here. The authors have not been asked, so none is called WRONG. A *confirmed* claim is \
PARTIAL; any other has no word of this rule (*{none}*).
"""


def track_word(verdict): return 'PARTIAL' if verdict == CONFIRMED else NONE # by the rule above
def beside(verdict): return f'{verdict} ({track_word(verdict)})' if verdict == CONFIRMED else verdict


def paper_claims() -> pd.DataFrame:
    "The ledger without our own claims."
    found = pd.read_csv(OURS/'claims.csv')
    return found[found.place != 'ours']


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
    claims, # of `paper_claims`
) -> str:   # such as confirmed (PARTIAL): C02, C03
    "The claims that rest on it, word by word."
    mine = claims[[label in place.split(', ') for place in claims.place]]
    found = [(word, mine.id[mine.verdict == word]) for word in WORDS]
    return '; '.join(f'{beside(word)}: {", ".join(ids)}' for word, ids in found if len(ids))


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


def counted(claims) -> str: # of `paper_claims`
    "The rule, with the number of claims in each word."
    counts = claims.verdict.value_counts().reindex([*WORDS], fill_value=0)
    words = in_words([f'{n} *{word}*' for word, n in counts.items()])
    [commit] = pd.read_csv(REPORTED/'reasons.csv').commit.unique()
    return RULE.format(total=len(claims), words=words, none=NONE, commit=commit)


def paper_map() -> str: # of docs/paper.md
    "The paper's contents by number, then its claims."
    notebooks = {path.stem[4:]: path for path in (ROOT/'nbs'/'repro').glob('*/*.ipynb')}
    manifest = json.loads((OURS/'manifest.json').read_text('utf-8'))
    seconds = {name: x['seconds'] for name, x in manifest.items()}
    claims, parts = paper_claims(), [opening()]
    why = pd.read_csv(REPORTED/'reasons.csv').set_index('claim').reason
    contents = pd.read_csv(REPORTED/'contents.csv')
    for kind in ('Table', 'Figure'):
        rows = [{
            '': f'**{r.number}**', 'what it has': r.caption, 'page and command': command(r.page, notebooks),
            'minutes': minutes(seconds[r.page]), 'files': files_of(r.label, r.page),
            'claims': verdicts_on(r.label, claims)}
            for r in contents.itertuples() if r.number.startswith(kind)]
        parts.append(f'## {kind}s\n\n{markdown(rows)}\n')
    numbers = contents.set_index('label').number
    rows = [{
        'id': r.id, 'rests on': ', '.join(numbers.get(x, x) for x in r.place.split(', ')),
        'the paper says': r.statement,
        'cells for / against / all': f'{r.significant} / {r.against} / {r.cells}', 'our word': r.verdict,
        'why': '' if r.verdict == CONFIRMED else why.get(r.id, ''),
        'track': track_word(r.verdict), 'page and command': command(r.page, notebooks)}
        for r in claims.itertuples()]
    return '\n'.join([*parts, counted(claims), markdown(rows), ''])


if __name__ == '__main__': (ROOT/'docs'/'paper.md').write_text(paper_map(), 'utf-8')
