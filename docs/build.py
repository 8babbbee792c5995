"""Build the site into build/docs: lay out what Sphinx reads, run it, then follow every link inside."""
import argparse
import hashlib
import sys
from importlib.metadata import distributions
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from api import stage_api
from docments import ROOT, all_notebooks, entries_of
from links import broken_links
from pages import SECTIONS, stage_notebook, stage_section
from stage import Stage, settle_links, link_pages, toctree

DOCS = ROOT/'docs'
PROJECT = {
    'CONTRIBUTING.md': 'Contributing', 'CHANGELOG.md': 'Changes', 'LOG.md': 'Log of experiments',
    'figures/reported/README.md': "The paper's numbers", 'data_synth/README.md': 'The synthetic domains'}
TEXTS = {'README.md': 'index.md', 'docs/tour.md': 'tour.md', **{name: name for name in PROJECT}}


def stage_texts(
    stage,    # Stage
    pages,    # number: Notebook
    sections, # names of those that have pages
):
    "The README as the front page, the tour, and what the project says of itself."
    for name, staged in TEXTS.items():
        text = settle_links(stage, (ROOT/name).read_text(), name, TEXTS)
        if name == 'README.md':
            above, below = text.split('\n![', 1)
            inside = toctree(['tour', *sections, 'api/index', 'project'])
            text = f'{above}\n{(DOCS/"entrance.md").read_text()}\n![{below}\n\n{inside}'
        stage.write(staged, link_pages(text, pages))
    listed = '\n'.join(f'- [{title}](/{name})' for name, title in PROJECT.items())
    inside = toctree((title, f'/{name.removesuffix(".md")}') for name, title in PROJECT.items())
    stage.write('project.md', f'# The project\n\n{listed}\n\n{inside}')


def stage_site(
    folder, # that Sphinx is to read
):
    "Lay out everything: pages, sections, API, texts."
    stage, notebooks = Stage(folder), all_notebooks()
    pages = {n.number: n for n in notebooks}
    sections = {name: [n for n in notebooks if s.first <= n.number < s.end] for name, s in SECTIONS.items()}
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
    for name in sorted(f'{d.name} {d.version}' for d in distributions()): found.update(name.encode())
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
