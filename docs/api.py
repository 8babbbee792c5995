"""The API: a page for every module, from the docments of its notebook, and one for every setting."""
import re

from docments import ROOT, entries_of
from stage import box, opening, settle_links, toctree

from modit.settings import profile_values, read_profiles

ABOUT = """# API

What each page exports, from the comments behind its parameters; every name leads to the place of its page
where it is explained and checked. An experiment exports `run`, `table`, `plot` and `claims`, and stands in
[a section of its own](/experiments.md). [Every setting](/api/all_settings.md) has its source in the paper.
"""
SETTINGS = """# Every setting

From `settings.ini`. The *source* is the place in the paper; "ours" marks what the paper does not say.
[settings](/nbs/002_settings.ipynb) reads and checks them; `load_settings('mini', k=20)` overrides.
"""


def plain(
    text, # of a comment
) -> str:
    "Markdown that shows just that text, in a table too; code between backticks stays code."
    parts = re.split(r'(`[^`]*`)', text)
    for i in range(0, len(parts), 2): parts[i] = re.sub(r'([\\*_$<>\[\]{}])', r'\\\1', parts[i])
    return ''.join(parts).replace('|', '\\|')


def code(text): return f'`{text}`'.replace('|', '\\|') if text else ''


def rows(
    *lines, # of cells, the head first
) -> str:
    "A Markdown table."
    head, *body = [f'| {" | ".join(line)} |' for line in lines]
    return '\n'.join([head, '|---'*len(lines[0]) + '|', *body])


def parameter_table(
    entry, # Entry
) -> str:
    "Parameters with meaning and default, and what is returned; empty without either."
    lines = [(f'{code(name)} {code(kind)}', plain(meaning), code(default))
             for name, kind, default, meaning in entry.parameters]
    kind, meaning = entry.returns
    if meaning or kind not in ('', 'None'): lines.append((f'*returns* {code(kind)}', plain(meaning), ''))
    if not lines: return ''
    width = 3 if any(default for *_, default in lines) else 2
    return rows(*(line[:width] for line in [(entry.rows, 'meaning', 'default'), *lines]))


def places(
    entry,    # Entry
    notebook, # its Notebook
) -> str:
    "Where a name comes from: the paper, and the page."
    page = f'[page {notebook.number}, {entry.section}](#cell-{notebook.number}-{entry.cell})'
    if not entry.source: return page
    paper = plain(entry.source) if entry.source.startswith('ours') else f'In the paper: {plain(entry.source)}'
    return f'{paper[0].upper()}{paper[1:]} · {page}'


def entry_text(
    entry,    # Entry
    notebook, # its Notebook
) -> str:
    "One name of the API: how it is called, what it does, its parameters, its places."
    kind, head, options, body = entry.kind, entry.name, [], [plain(entry.summary)]
    if kind == 'data' and len(entry.signature) < 90: options = [f':value: {entry.signature}']
    elif kind == 'property':
        options = [f':type: {entry.returns[0]}'] if entry.returns[0] else []
        body.append(plain(entry.returns[1]))
    elif kind != 'data':
        head += entry.signature
        body.append(parameter_table(entry))
    if kind == 'classmethod': kind, options = 'method', [':classmethod:']
    body.append(box('source', places(entry, notebook)))
    parts = '\n\n'.join(part for part in body if part)
    return '\n'.join([f'::::{{py:{kind}}} {head}', *options, '', parts, '::::', ''])


def stage_module(
    stage,    # Stage
    notebook, # Notebook
) -> list: # of Entry
    "The page of one module."
    found = entries_of(notebook)
    link = box('facts', f'Explained, shown and checked on [page {notebook.number}]({notebook.link})')
    named = f'```{{py:module}} {notebook.module}\n```'
    entries = [entry_text(entry, notebook) for entry in found]
    about = settle_links(stage, notebook.summary, notebook.path.relative_to(ROOT), {})
    text = '\n\n'.join([f'# `{notebook.module}`', about, link, named, *entries])
    stage.write(f'api/{notebook.name}.md', text)
    return found


def read_settings() -> dict: # group: list of (name, source, meaning)
    "What settings.ini says of each setting, by its groups."
    groups, text = dict(all=[]), (ROOT/'settings.ini').read_text()
    for line in text.partition('\n[DEFAULT]\n')[2].splitlines():
        if line.startswith('['): break
        found = re.match(r'(\w+)\s*=[^#]*(?:#\s*(.*?)(?::\s+(.*))?)?$', line)
        if line.startswith('# ---'): groups[line.strip('# -')] = []
        elif found: [*groups.values()][-1].append((found[1], found[2] or '', found[3] or ''))
    return {name: found for name, found in groups.items() if found}


def stage_settings(
    stage, # Stage
):
    "Every setting: meaning, source, and its value in two profiles."
    cfg = read_profiles(ROOT/'settings.ini')
    text = [SETTINGS]
    for group, found in read_settings().items():
        lines = [('setting', 'meaning', 'source', 'paper', 'mini')]
        for name, source, meaning in found:
            values = [code(profile_values(cfg, profile)[name]) for profile in lines[0][3:]]
            lines.append((code(name), plain(meaning), plain(source), *values))
        text.append(f'## {group[0].upper()}{group[1:]}\n\n{rows(*lines)}\n')
    stage.write('api/all_settings.md', '\n'.join(text))


def stage_api(
    stage,     # Stage
    notebooks, # of the library
):
    "A page a module, the settings, and the way in."
    lines = [('module', 'what it is about', 'names')]
    for notebook in notebooks:
        found = [e.name for e in stage_module(stage, notebook) if e.kind in ('function', 'class')]
        names = ' '.join(f'{{py:obj}}`{name} <{notebook.module}.{name}>`' for name in found)
        about = opening(notebook.title.partition(': ')[2] or notebook.title)
        link = f'[`{notebook.name}`](/api/{notebook.name}.md)'
        lines.append((link, plain(about[0].upper() + about[1:]), names))
    stage_settings(stage)
    inside = [('Every setting', '/api/all_settings'), *((n.name, f'/api/{n.name}') for n in notebooks)]
    stage.write('api/index.md', f'{ABOUT}\n{rows(*lines)}\n\n{toctree(inside)}')
