"""Generative retrieval with a metric-ordered diffusion transformer (MO-DiT) and preferences (HPPO).

The whole method on a toy domain; nbs/005_method.ipynb explains it line by line:

    # the whole method
    import modit

    s = modit.load_settings('smoke')                          # a toy: seconds on one core
    corpus = modit.prepare_corpus(modit.synthetic_domain(s, 'D3'), s)

    base, _ = modit.pretrain(modit.synthetic_sessions(s), s)  # i    raw sessions
    shared, _ = modit.continue_pretraining(base, [corpus], s) # ii   sequences sorted by predicted density
    sft, _ = modit.finetune(shared, corpus, s)                # iii  from the seeds to the dense end: MO-DiT
    pool = modit.labelled_pool(sft, corpus, s)                # iv   candidates, labelled by real retrieval
    run = modit.hppo(sft, corpus, s, pool, modit.VARIANTS['adaptive'])   # rounds of preferences: HPPO

    cases = modit.sample_cases(corpus, 'item', s.density_cases, s)       # seeds that were held out
    queries = {
        'average': modit.average_pool(corpus, cases),
        'MO-DiT': modit.serve(sft, corpus, cases, s),
        'HPPO': modit.serve(run.policy, corpus, cases, s)}
    for name, query in queries.items():
        print(f'{name:7} {modit.score_cases(query, corpus, cases, s).joint.mean():.2f}')

    # average 0.24
    # MO-DiT  0.37
    # HPPO    0.44

The numbers are Joint: of the items that a query retrieves, the part that has the attribute and
belongs to the seeds' pattern. Toy data are too small for a result; the README has results.

`help` shows an example of each name, such as `help(modit.serve)`; `s`, `corpus` and `cases` there are
those above.

A name is imported when it is first asked for. `modit.pretrain` is a function; the module of this name
is reached by `from modit.pretrain import continuation_loss`, or as a whole by
`importlib.import_module('modit.pretrain')`.
"""
import linecache
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

__version__ = "0.3.0"

# Every module as it was before one of them ran: a key is of the code that runs, whatever is edited later.
SOURCES = {path: path.read_text('utf-8') for path in sorted(Path(__file__).parent.rglob('*.py'))}

_LISTS = Path(__file__).parent/'index'/'engines.py' # names stored lists by inspect.getsource of what makes them
linecache.cache[str(_LISTS)] = len(SOURCES[_LISTS]), None, SOURCES[_LISTS].splitlines(True), str(_LISTS)

_HOME = dict( # name: the module that defines it
    load_settings='settings', synthetic_domain='data.synth', synthetic_sessions='data.synth',
    prepare_corpus='ordering',
    pretrain='pretrain', continue_pretraining='sft', finetune='sft',
    labelled_pool='candidates', hppo='rounds', VARIANTS='preference', direct_rewards='direct',
    sample_cases='evaluation', average_pool='evaluation', serve='evaluation',
    score_cases='evaluation', evaluate='evaluation',
    write_folder='data.folder', write_table='data.folder', Retriever='serving.retriever')
__all__ = [*_HOME]


def __getattr__(name):
    "A name of the method, from its module; raises `AttributeError` that says what to do."
    if name in _HOME:
        try: return getattr(import_module(f'{__name__}.{_HOME[name]}'), name)
        except ModuleNotFoundError as e:
            if e.name not in ('torch', 'accelerate'): raise
            raise AttributeError(f"modit.{name} needs torch: pip install 'modit[train]'") from None
    from difflib import get_close_matches
    near = ' or '.join(get_close_matches(name, __all__)) or f'one of {", ".join(__all__)}'
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}; use {near}')


def __dir__(): return sorted({*globals(), *__all__})


class _Package(ModuleType):
    "This package: a submodule does not take the place of the function of its name."
    def __setattr__(self, name, value):
        if name not in _HOME or not isinstance(value, ModuleType): super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
