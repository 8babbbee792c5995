"""Every page as the site shows it, and the galleries of its sections."""
import base64
import json
import re
from dataclasses import dataclass

from docments import ROOT, directives, entries_of, python, text_of
from stage import box, link_pages, opening, stage_file, toctree, without_links

# A cell of nothing but imports and what goes with them is folded.
FOLDED = re.compile(r'import |from |plt\.style\.use|torch\.set_num_threads|[%#)\s]|$')
LANGUAGE = dict(kernelspec=dict(name='python3', display_name='Python 3', language='python'),
                language_info=dict(name='python', pygments_lexer='ipython3'))


@dataclass
class Section:
    "Pages that stand together: those of some folders of nbs."
    title: str
    rooms: tuple
    about: str


SECTIONS = dict(
    method=Section(
        'The method', ('.',), 'In the order of their numbers, these pages are the method: each explains one '
        'idea, shows it, checks it, and exports the code of one module.'),
    data=Section(
        'Data and indexes', ('data', 'index'), 'The synthetic worlds, and folders of your own; and '
        'what searches them.'),
    serving=Section(
        'Your own models', ('serving', 'stages', 'cli'), 'From a folder of embeddings to a list of items.'),
    machinery=Section(
        'Reports and machinery',
        ('repro/datasets', 'repro/leaderboard', 'repro/pages', 'repro/report', 'repro/bench'),
        'Public datasets; from scores to tables, figures and '
        'verdicts; what makes, stores and runs everything, and what it costs.'),
    experiments=Section(
        'Experiments', ('repro/paper', 'repro/ours', 'repro/verdicts', 'repro/lib'),
        'One question a page: a table or a figure of the paper, or of our own, with the verdicts '
        'on its claims, and what it cannot show.'))


def with_facts(
    text,     # of a page's first cell
    notebook, # Notebook
) -> str:
    "The first cell, and below its title what page this is and what it exports."
    title, _, rest = text.partition('\n')
    path = notebook.path.relative_to(ROOT).as_posix()
    words = [f'{"Experiment" if notebook.experiment else "Page"} {notebook.number}', f'source `{path}`']
    exports = not notebook.experiment and entries_of(notebook)
    if exports: words.insert(1, f'exports [`{notebook.module}`](/api/{notebook.name}.md)')
    return f'{title}\n\n{box("facts", " · ".join(words))}\n{rest}'


def badge(
    notebook, # Notebook
    cell,     # id of an exported cell
    names,    # that the cell exports
) -> str:
    "What stands above an exported cell: links to its names in the API, and a target for links from there."
    said = [f'`{notebook.module}`', *(f'{{py:obj}}`{name} <{notebook.module}.{name}>`' for name in names)]
    return f'(cell-{notebook.number}-{cell})=\n{box("exported", " ".join(said))}'


def stage_figures(
    stage,    # Stage
    notebook, # Notebook
):
    "The pictures and tables that a page's text links to, where the links expect them."
    for text in (text_of(c) for c in notebook.cells if c['cell_type'] == 'markdown'):
        for link in re.findall(r'\]\(([^)#\s]+)', text):
            path = (notebook.path.parent/link).resolve()
            inside = path.is_relative_to(ROOT/'figures') and path.name != 'README.md'
            if inside and path.is_file(): stage_file(stage, path)


def markdown_cell(text, key): return dict(cell_type='markdown', id=key, metadata={}, source=text)


def code_cells(
    notebook, # Notebook
    cell,     # a code cell
    names,    # that it exports
) -> list:
    "A code cell without directives, imports folded; an exported one below its badge."
    text, tags = text_of(cell), [*cell['metadata'].get('tags', ())]
    marks, code = directives(text), python(text).strip('\n')
    if 'default_exp' in marks or not code: return []
    imports = all(map(FOLDED.match, code.splitlines())) and not cell['outputs']
    if imports: tags.append('hide-input')
    if 'export' in marks: tags.append('exported')
    shown = {**cell, 'source': code, 'metadata': dict(tags=tags)}
    if imports or notebook.experiment or 'export' not in marks: return [shown]
    return [markdown_cell(badge(notebook, cell['id'], names), f'{cell["id"]}-badge'), shown]


def stage_notebook(
    stage,    # Stage
    notebook, # Notebook
    pages,    # number: Notebook
):
    "One page, with its stored outputs."
    stage_figures(stage, notebook)
    first, *others = notebook.cells
    cells = [markdown_cell(with_facts(link_pages(text_of(first), pages), notebook), first['id'])]
    names = {}
    for entry in entries_of(notebook): names.setdefault(entry.cell, []).append(entry.name)
    for cell in others:
        if cell['cell_type'] == 'code': cells += code_cells(notebook, cell, names.get(cell['id'], ()))
        else: cells.append(markdown_cell(link_pages(text_of(cell), pages), cell['id']))
    content = dict(cells=cells, metadata=LANGUAGE, nbformat=4, nbformat_minor=5)
    stage.write(notebook.link[1:], json.dumps(content, indent=1))


def picture_of(
    notebook, # Notebook
) -> bytes: # png, empty where the page has none
    "A page's first picture among its stored outputs."
    outputs = [o.get('data', {}) for c in notebook.cells for o in c.get('outputs', ())]
    pictures = [o['image/png'] for o in outputs if 'image/png' in o]
    return base64.b64decode(''.join(''.join(p) for p in pictures[:1]))


def card(
    stage,    # Stage
    notebook, # Notebook
) -> str:
    "A page in its section's gallery: picture or number, title, and its first sentence."
    picture, head = picture_of(notebook), notebook.number
    shown = re.search(r'!\[[^\]]*\]\((?:\.\./)+(figures/\S+)\)', text_of(notebook.cells[0]))
    if shown: head = f'![{notebook.short}](/{shown[1]})'
    elif picture:
        stage.write(f'thumbs/{notebook.number}.png', picture)
        head = f'![{notebook.short}](/thumbs/{notebook.number}.png)'
    title = f'**[{notebook.number} {notebook.short}]({notebook.link})**'
    about = opening(without_links(notebook.summary), 90)
    return box('card', f'[{head}]({notebook.link})\n\n{title}\n\n{about}')


def stage_section(
    stage,     # Stage
    name,      # of the section
    notebooks, # its pages
):
    "A section's own page, with a card for each page of it."
    section = SECTIONS[name]
    cards = box('cards', '\n'.join(card(stage, n) for n in notebooks), '::::')
    contents = toctree((f'{n.number} {n.short}', n.link.removesuffix('.ipynb')) for n in notebooks)
    stage.write(f'{name}.md', f'# {section.title}\n\n{section.about}\n\n{cards}\n\n{contents}')
