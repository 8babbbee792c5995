"""Pictures of pages that the tour shows: copies of stored outputs, for a code host shows files only."""
import base64
from pathlib import Path

from docments import ROOT, read_notebook

# file beside this one: page, id of its cell
PICTURES = {'sft.png': ('nbs/140_sft.ipynb', 'c023')}


def stored_picture(
    page, # a notebook, relative to the repository
    cell, # id of one of its cells
) -> bytes: # png
    "The picture that a cell has stored; raises `ValueError` if there is none."
    for found in read_notebook(ROOT/page).cells:
        outputs = found.get('outputs', ()) if found['id'] == cell else ()
        for output in outputs:
            if 'image/png' in output.get('data', {}):
                return base64.b64decode(''.join(output['data']['image/png']))
    raise ValueError(f'{page} has no picture in cell {cell}; correct PICTURES in docs/pictures.py')


if __name__ == '__main__':
    for name, source in PICTURES.items():
        (Path(__file__).parent/name).write_bytes(stored_picture(*source))
