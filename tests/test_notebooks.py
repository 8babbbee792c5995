"""Every library notebook runs from top to bottom, and its lessons hold."""
import pytest
from nbdev.test import test_nb as run_page

from conftest import ROOT

PAGES = sorted((ROOT/'nbs').glob('[0-2]*.ipynb'))


@pytest.mark.parametrize('page', PAGES, ids=lambda p: p.stem)
def test_page(page):
    ok, _ = run_page(page)
    assert ok, f'{page.name} failed; its traceback is above'
