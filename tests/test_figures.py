"""Rulers for figures: colours that all readers can tell apart, text that can be read at the width of a page,
and no label over another. test_outputs.py lays them on every figure that a page draws."""
import re
from itertools import combinations
from pathlib import Path
from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.path import Path as Outline
from matplotlib.text import Text
from matplotlib.transforms import Affine2D

from conftest import ROOT, tracked_files
from modit.repro.report import looks

WIDTH = 7.5      # inches that a figure is shown at
SMALLEST = 7     # points
OVERLAP = 2      # pixels at 100 dpi by which boxes of text may reach into each other
OKABE_ITO = ('#000000', '#E69F00', '#56B4E9', '#009E73', '#F0E442', '#0072B2', '#D55E00', '#CC79A7')


# ---- rulers
def texts_of(figure):
    "The texts that are drawn, and the renderer that drew them; labels outside of an axis are not."
    seen, draw = [], Text.draw
    def spy(self, renderer):
        if self.get_visible() and self.get_text().strip(): seen.append(self)
        return draw(self, renderer)
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine('none')  # as `savefig` does when the layout has settled
    with patch.object(Text, 'draw', spy): canvas.draw()
    return seen, canvas.get_renderer()


def box_of(text, renderer):
    "The rectangle of a text in pixels, turned as the text is, and smaller by half the allowed overlap."
    middle = Text.get_window_extent(text, renderer)
    centre = np.array([middle.x0 + middle.x1, middle.y0 + middle.y1])/2
    angle = text.get_rotation()
    text.set_rotation(0)
    flat = Text.get_window_extent(text, renderer)
    text.set_rotation(angle)
    size = np.maximum([flat.width - OVERLAP, flat.height - OVERLAP], .2)
    turn = Affine2D().translate(-.5, -.5).scale(*size).rotate_deg(angle).translate(*centre)
    return turn.transform_path(Outline.unit_rectangle())


def overlapping(texts, renderer):
    "Pairs of texts of which one lies over the other."
    boxes = [(t.get_text(), box_of(t, renderer)) for t in texts]
    return [(a, b) for (a, x), (b, y) in combinations(boxes, 2) if x.intersects_path(y, filled=True)]


def colours_of(figure):
    "Colours of all that is visible: lines, marks, patches, collections and text, with their artist."
    for artist in figure.findobj(lambda a: a.get_visible()):
        if isinstance(artist, Line2D):
            found = [artist.get_color()]
            if artist.get_marker() not in ('None', None, '', ' '):
                found += [artist.get_markerfacecolor(), artist.get_markeredgecolor()]
        elif isinstance(artist, Patch | Collection): found = [artist.get_facecolor(), artist.get_edgecolor()]
        elif isinstance(artist, Text): found = [artist.get_color()]
        else: continue
        for colour in found:
            for rgba in to_rgba_array(colour): yield artist, rgba


def is_allowed(rgba):
    "One of Okabe and Ito's colours or a grey, as it is or mixed with white."
    r, g, b, alpha = rgba
    if alpha == 0 or max(r, g, b) - min(r, g, b) < .02: return True
    for full in to_rgba_array(OKABE_ITO)[:, :3]:
        share = (1 - rgba[:3]) @ (1 - full)/((1 - full) @ (1 - full))
        if 0 < share <= 1.01 and np.allclose(1 - rgba[:3], share*(1 - full), atol=.012): return True
    return False


# ---- all that can be wrong with a figure
def mark_of(line):
    "Shape, filling and size of a line's marks."
    face = line.get_markerfacecolor()
    return line.get_marker(), face if face == 'none' else to_hex(face), line.get_markersize()


def odd_entries(figure):
    "Marks of the legend's HPPO that no line of the figure has: it is drawn as one of its variants."
    drawn = {mark_of(line) for ax in figure.axes for line in ax.get_lines()}
    legends = [*figure.legends, *filter(None, (ax.get_legend() for ax in figure.axes))]
    entries = [pair for x in legends for pair in zip(x.legend_handles, x.get_texts(), strict=True)]
    called = [handle for handle, text in entries if text.get_text() == looks.look('hppo').label]
    marks = [mark_of(handle) for handle in called if isinstance(handle, Line2D)]
    def near(mark): return any(x[:2] == mark[:2] and abs(x[2] - mark[2]) <= 2 for x in drawn)
    return [mark for mark in marks if not near(mark)]


def faults_of(figure):
    "What is wrong with a figure: what, and where."
    texts, renderer = texts_of(figure)
    shown = min(1, WIDTH/figure.get_figwidth())
    sizes = {t.get_text(): round(t.get_fontsize()*shown, 2) for t in texts}
    codes = {method for method, seen in looks.METHODS.items() if seen.label != method and '_' in method}
    found = {
        f'wider than {WIDTH} inches': [x for x in [figure.get_figwidth()] if x > WIDTH + 1e-6],
        'drawn beyond its edge': [x for x in [figure.get_tightbbox().width] if x > WIDTH + .1],
        f'smaller than {SMALLEST} points': [text for text, size in sizes.items() if size < SMALLEST],
        'one label over another': overlapping(texts, renderer),
        'no colour of the palette': {(type(artist).__name__, *np.round(rgba, 2))
                                     for artist, rgba in colours_of(figure) if not is_allowed(rgba)},
        'not as in the legend': odd_entries(figure),
        'a name of the code': codes & {word for text in sizes for word in text.split()}}
    return {what: where for what, where in found.items() if where}


# ---- the rulers measure what they should
def test_rulers_find_faults():
    figure, ax = plt.subplots(figsize=(4, 2))
    ax.plot([0, 1], [0, 1], color='red')
    ax.text(.5, .5, 'one label')
    ax.text(.52, .5, 'another label')
    ax.text(.5, .1, 'unseen', visible=False)
    ax.text(.5, .1, 'alone')
    plt.close(figure)
    assert overlapping(*texts_of(figure)) == [('one label', 'another label')]
    assert {type(artist) for artist, rgba in colours_of(figure) if not is_allowed(rgba)} == {Line2D}


def test_a_last_bit_of_the_layout_changes_no_byte_of_an_svg(tmp_path):
    for folder, height in (('a', .6), ('b', .6*(1 + 1e-14))):
        figure = plt.figure(layout='none')
        figure.add_axes([.2, .1, .7, height]).plot([0, 1], [0, 2])
        plt.close(figure)
        looks.save_figure(tmp_path/folder, 'fig-x', figure)
    assert (tmp_path/'a'/'fig-x.svg').read_bytes() == (tmp_path/'b'/'fig-x.svg').read_bytes()


def test_only_what_the_front_page_shows_is_png_too():
    shown = {Path(x) for x in re.findall(r'\((figures/\S+\.png)\)', (ROOT/'README.md').read_text('utf-8'))}
    written = {p for p in tracked_files() if p.parts[0] == 'figures' and p.suffix == '.png'}
    assert written == shown and {p.stem for p in shown} == {*looks.PNG, 'look'}  # a page, photographed


