"""The folder that Sphinx reads, and what a text needs to stand in it: links to pages, pictures, contents."""
import re
from pathlib import Path

from docments import ROOT

# Code, mathematics, links and tags: inside of them no link is made.
CODE, MATH, LINK = r'```.*?```|`[^`\n]*`', r'\$\$.*?\$\$|\$[^$\n]*\$', r'!?\[[^\]]*\]\([^)]*\)|<[^>]*>'
UNTOUCHED = re.compile(f'({CODE}|{MATH}|{LINK})', re.S)
NUMBERS = re.compile(r'\b[Pp]ages? \d{3}\b(?!_)(?:(?:, | and )\d{3}\b(?!_))*')


class Stage:
    "A folder in which only what changed is written again, so that Sphinx reads only that again."
    def __init__(self, folder):
        self.folder, self.kept = Path(folder), set()

    def write(self, name, content):
        "One file, of text or bytes."
        path, data = self.folder/name, content.encode() if isinstance(content, str) else content
        self.kept.add(path)
        if path.exists() and path.read_bytes() == data: return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def sweep(self):
        "Remove what an earlier time left."
        for path in sorted(self.folder.rglob('*'), reverse=True):
            if path.is_dir() and not any(path.iterdir()): path.rmdir()
            elif path.is_file() and path not in self.kept: path.unlink()


def link_pages(
    text,  # Markdown
    pages, # number: Notebook
) -> str:
    "Make links of 'page 130', 'pages 120 and 130' and '330_order'."
    def link(found):
        page = pages.get(found[0][:3])
        return f'[{found[0]}]({page.link})' if page and page.path.stem.startswith(found[0]) else found[0]
    def links(found): return re.sub(r'\b\d{3}\b', link, found[0])
    parts = UNTOUCHED.split(text)
    for i in range(0, len(parts), 2):
        numbered = NUMBERS.sub(links, parts[i])
        parts[i] = re.sub(r'(?<![\w/\[])\d{3}_\w+', link, numbered)
    return ''.join(parts)


def settle_links(
    stage, # Stage
    text,  # Markdown, with links as a code host follows them
    name,  # of its file in the repository
    texts, # name of every text in the repository: its name in the stage
) -> str:  # the text as it can stand anywhere in the stage
    "Stage what a text links to, pictures as svg where they are; other texts have their staged names."
    def settle(found):
        target, link = found[1], found[2]
        path = (ROOT/Path(name).parent/link).resolve()
        if '://' in link or not path.is_relative_to(ROOT): return found[0]
        if target[0] == '!' and path.with_suffix('.svg').exists(): path = path.with_suffix('.svg')
        if (path/'README.md').exists(): path = path/'README.md'
        inside = path.relative_to(ROOT).as_posix()
        by_itself = inside in texts or path.suffix == '.ipynb'
        if path.is_file() and not by_itself: stage_file(stage, path)
        return f'{target}(/{texts.get(inside, inside)}'
    return re.sub(r'(!?\[[^\]]*\])\(([^)#\s]+)', settle, without_badges(text))


def stage_file(
    stage, # Stage
    path,  # of a file that a text links to
):
    "A file as it is; Markdown, such as a page's results, with what it links to: no contents name it."
    name = path.relative_to(ROOT).as_posix()
    if path.suffix != '.md': return stage.write(name, path.read_bytes())
    text = path.read_text()
    title = '' if text.startswith('# ') else f'# {path.stem}\n\n'
    stage.write(name, f'---\norphan: true\n---\n\n{title}{settle_links(stage, text, name, {})}')


def without_links(text): return re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', text) # their words stay
def without_badges(text): # a picture from elsewhere needs a network; its words stay
    return re.sub(r'!\[([^\]]*)\]\(https?://[^)]*\)', r'\1', text)


MARK = '<!-- entrance -->'

def with_entrance(
    text,     # of the front page
    entrance, # Markdown
) -> str:
    "The entrance at its mark, or else before the first section, whatever pictures the text begins with."
    if MARK in text: return text.replace(MARK, f'\n{entrance}\n', 1)
    above, heading, below = text.partition('\n## ')
    return f'{above.rstrip()}\n\n{entrance}{heading}{below}'


def toctree(
    entries, # paths, or titles and paths
) -> str:
    "Contents that only the side bar shows."
    rows = [e if isinstance(e, str) else f'{e[0]} <{e[1]}>' for e in entries]
    return '\n'.join(['```{toctree}', ':hidden:', '', *rows, '```', ''])


def box(
    kind, # class of the box, as site.css knows it
    text, # Markdown
    colons=':::', # more of them around a box that holds boxes
) -> str:
    "Text in a box with a look of its own."
    return f'{colons}{{container}} {kind}\n{text}\n{colons}'


def opening(
    text,    # of several sentences
    least=1, # characters
) -> str:
    "The first sentences that have so many characters together."
    said = ''
    for sentence in re.split(r'(?<=[.:]) (?=[A-Z])', text):
        if len(said) < least: said = f'{said} {sentence}'.strip()
    return said.rstrip(':')
