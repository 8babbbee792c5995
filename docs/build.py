"""Build the site into build/docs: lay out what Sphinx reads, run it, then follow every link inside."""
import argparse
import hashlib
import re
import sys
from importlib.metadata import distributions
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from api import stage_api
from docments import ROOT, all_notebooks, entries_of
from links import broken_links
from pages import SECTIONS, stage_notebook, stage_section
from stage import Stage, link_pages, settle_links, toctree, with_entrance

DOCS = ROOT/'docs'
PROJECT = [name for name in (
    'CONTRIBUTING.md', 'CHANGELOG.md', 'LOG.md', 'docs/paper.md', 'docs/deviations.md', 'docs/scaling.md',
    'nbs/README.md', 'nbs/COURSE.md',
    'nbs/repro/README.md', 'figures/README.md', 'figures/reported/README.md', 'data_synth/README.md',
    'data_public/README.md', 'bench/README.md',
    *sorted(f'docs/log/{day.name}' for day in (DOCS/'log').glob('*.md')))
    if (ROOT/name).exists()]
TEXTS = {'README.md': 'index.md', 'docs/tour.md': 'tour.md', 'modit': 'api/index.md',
         **{name: name for name in PROJECT}}
# The entrance leads to the galleries of pages, which a code host has not: it has lists of them.
DOORS = TEXTS | {'nbs/README.md': 'method.md', 'nbs/repro/README.md': 'experiments.md'}


def stage_texts(
    stage,    # Stage
    pages,    # number: Notebook
    sections, # names of those that have pages
):
    "The README as the front page, the tour, and what the project says of itself."
    def read(name, texts=TEXTS): return settle_links(stage, (ROOT/name).read_text(), name, texts)
    inside = toctree(['tour', *sections, 'api/index', 'project'])
    front = with_entrance(read('README.md'), read('docs/entrance.md', DOORS))
    stage.write('index.md', link_pages(f'{front}\n\n{inside}', pages))
    for name in ('docs/tour.md', *PROJECT): stage.write(TEXTS[name], link_pages(read(name), pages))
    titles = {name: re.search('^# (.+)$', (ROOT/name).read_text(), re.M)[1] for name in PROJECT}
    listed = '\n'.join(f'- [{title}](/{name})' for name, title in titles.items())
    inside = toctree((title, f'/{name.removesuffix(".md")}') for name, title in titles.items())
    stage.write('project.md', f'# The project\n\n{listed}\n\n{inside}')


def stage_site(
    folder, # that Sphinx is to read
):
    "Lay out everything: pages, sections, API, texts."
    stage, notebooks = Stage(folder), all_notebooks()
    pages = {n.number: n for n in notebooks}
    questions_first = sorted(notebooks, key=lambda n: not n.experiment) # before the pages that they use
    sections = {name: [n for n in questions_first if n.room in s.rooms] for name, s in SECTIONS.items()}
    sections = {name: found for name, found in sections.items() if found}
    for notebook in notebooks: stage_notebook(stage, notebook, pages)
    for name, found in sections.items(): stage_section(stage, name, found)
    stage_api(stage, [n for n in notebooks if not n.experiment and entries_of(n)])
    stage_texts(stage, pages, sections)
    stage.sweep()


def inputs_of(
    folder, # that Sphinx is to read
) -> str:   # a digest
    "All that a site is made from: what is laid out, this folder, and what is installed."
    found = hashlib.sha256((ROOT/'pyproject.toml').read_bytes())
    for root in (Path(folder), DOCS):
        files = [p for p in root.rglob('*') if p.is_file() and '__pycache__' not in p.parts]
        for path in sorted(files):
            found.update(path.relative_to(root).as_posix().encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    for name in sorted({f'{d.name} {d.version}' for d in distributions()}): found.update(name.encode())
    return found.hexdigest()


def built_from(folder): return Path(folder)/'docs-inputs'  # the digest of a site that was built without fault


def build(
    folder,         # for sources, Sphinx's memory and the site
    builder='html', # or linkcheck: follow links to elsewhere, which needs a network
) -> int: # exit status
    "Build the site; a warning or a broken link is a failure."
    folder = Path(folder)
    stage_site(folder/'docs-source')
    if builder == 'html': built_from(folder).unlink(missing_ok=True)
    out = folder/('docs' if builder == 'html' else builder)
    words = ['-q', '-W', '--keep-going', '-j', 'auto', '-b', builder, '-c', DOCS, '-d', folder/'docs-trees']
    status = sphinx([*map(str, words), str(folder/'docs-source'), str(out)])
    if status or builder != 'html': return status
    broken = broken_links(out)
    for line in broken: print(line, file=sys.stderr)
    if not broken: built_from(folder).write_text(inputs_of(folder/'docs-source'))
    return bool(broken)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--folder', type=Path, default=ROOT/'build', help='where the site goes')
    parser.add_argument('--external', action='store_true', help='follow links to elsewhere instead')
    given = parser.parse_args()
    status = build(given.folder, 'linkcheck' if given.external else 'html')
    if not status and not given.external: print(f'open {given.folder/"docs"/"index.html"}')
    sys.exit(status)
