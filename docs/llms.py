"""Write what is made from pages and results: llms.txt, every page with its summary; docs/apilist.txt, every
public name with its parameters in a line; docs/paper.md, the paper's tables and figures by number.
`python docs/llms.py` writes all three."""
import re

from docments import ROOT, all_notebooks, entries_of
from paper import paper_map

ABOUT = """# modit

> Find more items like your examples, but mostly those that also have a property you want: generative
> retrieval with a metric-ordered diffusion transformer (MO-DiT) and preference optimisation (HPPO), an
> independent reproduction of arXiv 2606.26899. Python 3.11 or newer, PyTorch; Apache-2.0.

Notebooks in `nbs/` are the source, `modit/` is exported from them. Without training:
`modit expand FOLDER --seeds ids.txt`; from Python: `modit.Retriever.untrained(folder).expand(ids)`.

## Start here

- [README](README.md): what it does, whether it works, how to use it
- [the method on one page](nbs/005_method.ipynb): all four stages on a toy, with a number after each
- [a course](nbs/COURSE.md): ten lessons with exercises and solutions that run
- [tutorial](nbs/serving/280_tutorial.ipynb): from your own embeddings to a list
- [every public name](docs/apilist.txt): parameters and a line each
- [SKILL](SKILL.md): lists from examples, as tools of `modit serve FOLDER --mcp`
- [AGENTS](AGENTS.md): how to work on the repository
- [the paper's tables and figures](docs/paper.md): by number, each with page, command, file and verdicts
- [deviations](docs/deviations.md): what differs from the paper; [LOG](LOG.md): what was tried
"""
ROOMS = {'.': 'The method', 'data': 'Data', 'index': 'Indexes', 'serving': 'Serving',
         'stages': 'Stages', 'cli': 'Command line',
         'repro/paper': 'The paper, each a question', 'repro/ours': 'Questions of our own',
         'repro/verdicts': 'Verdicts', 'repro/lib': 'What experiments share',
         'repro/datasets': 'Public datasets', 'repro/pages': 'Pages as runs',
         'repro/report': 'From scores to reports', 'repro/bench': 'Cost',
         'repro/leaderboard': 'Lists of unlabelled items'}


def plain(text): return re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', text) # links are relative to the page


def called(entry): # its parameters; empty for a constant and for a class of many fields
    return entry.signature if entry.kind != 'data' and len(entry.signature) < 500 else ''


def page_list() -> str: # of llms.txt
    "Every page with its summary, room by room."
    parts = [ABOUT]
    for room, title in ROOMS.items():
        pages = [n for n in all_notebooks() if n.room == room]
        lines = [f'- [{n.title}]({n.link[1:]}): {plain(n.summary)}'.rstrip(': ') for n in pages]
        parts.append('\n'.join([f'## {title}', '', *lines, '']))
    return '\n'.join(parts)


def api_list() -> str: # of docs/apilist.txt
    "Every public name of the library: module, name, parameters, what it does."
    parts = ['Public names of modit, from the pages; written by docs/llms.py.\n']
    for n in all_notebooks():
        if n.experiment: continue
        lines = [f'  {e.name}{called(e)}: {plain(e.summary)}'.rstrip(': ') for e in entries_of(n)]
        if lines: parts.append('\n'.join([n.module, *lines, '']))
    return '\n'.join(parts)


FILES = {'llms.txt': page_list, 'docs/apilist.txt': api_list, 'docs/paper.md': paper_map}

if __name__ == '__main__':
    for name, make in FILES.items(): (ROOT/name).write_text(make())
