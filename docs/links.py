"""Follows every link that stays inside the built site, and finds what a page would load from elsewhere."""
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

# What a page loads by itself: the attribute of each tag.
LOADED = dict(script='src', img='src', link='href', iframe='src', object='data', source='src')


class Links(HTMLParser):
    "Targets and links of one page."
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = {'', 'top'}, set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ('id', 'name') and value: self.ids.add(value)
            if name not in ('href', 'src', 'data') or not value: continue
            self.links.add(value)
            if LOADED.get(tag) == name: self.loads.add(value)


def outside(link): return link.startswith(('http:', 'https:', '//'))


def broken_links(
    folder, # of the built site
) -> list: # one line a broken link
    "Links inside the site that lead nowhere, and anything that a page loads from elsewhere."
    folder, found = Path(folder).resolve(), []
    pages = {p: Links(p.read_text()) for p in sorted(folder.rglob('*.html'))}
    for path, page in pages.items():
        at = path.relative_to(folder)
        foreign = sorted(filter(outside, page.loads))
        found += [f'{at} loads {link}: the site must work without a network' for link in foreign]
        for link in sorted(page.links):
            if outside(link) or link.startswith(('mailto:', 'data:', 'javascript:')): continue
            name, anchor = urldefrag(link)
            target = (path.parent/unquote(name.partition('?')[0])).resolve() if name else path
            if not target.exists(): found.append(f'{at} links to {link}, which is not there')
            elif target in pages and unquote(anchor) not in pages[target].ids:
                found.append(f'{at} links to {link}: no such place on that page')
    return found
