"""Stored results of an older checkout, under the names that this one looks for.

    python workflow/rename_store.py OLD [seed=1 margin=.05,beta=.3]

OLD is a checkout of that version (with public/ in it, if stages of public data are stored); words are changes
of settings. A table of items keeps its old name too: other files name it. What no key names is listed.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

NAMES = '''
import json, sys
import modit.repro.report.looks # and with it the stages of experiments
from modit.settings import load_settings, read_profiles
from modit.stages.stages import stage_path, stages_of
found = []
for profile in (x for x in read_profiles().sections() if x != 'DEFAULT'):
    for words in ['', *sys.argv[1:]]:
        try:
            s = load_settings(profile, **dict(x.split('=') for x in words.split(',') if x))
            for stage, row in stages_of(s).items():
                for domain in [None] if row.shared else s.domains:
                    path = stage_path(s, stage, domain)
                    found.append(([profile, words, stage, domain], str(path)))
        except (ValueError, OSError) as e: print(f'{profile} {words}: {e}', file=sys.stderr)
print(json.dumps(found))
'''


def names(checkout, words):
    "What a checkout calls the result of each profile, change of settings, stage and domain."
    env, call = os.environ | dict(PYTHONPATH=str(checkout)), [sys.executable, '-c', NAMES, *words]
    said = subprocess.run(call, cwd=checkout, env=env, stdout=-1, check=True).stdout
    return {tuple(what): Path(path) for what, path in json.loads(said)}


def main(old, *words):
    ours = names(Path(__file__).resolve().parents[1], words)
    theirs = names(Path(old).resolve(), words)
    pairs = {(path.with_name(theirs[what].name), path) for what, path in ours.items() if what in theirs}
    placed = set()
    for before, after in sorted(pairs):
        for file in sorted(before.parent.glob(f'{before.stem}.*')): # the result, checkpoints, items, work
            new = file.with_name(after.stem + file.name.removeprefix(before.stem))
            if file != new and file.is_dir() and not new.exists(): file.rename(new)
            elif file != new and file.is_file():
                if not new.exists(): os.link(file, new)
                assert new.samefile(file) or new.read_bytes() == file.read_bytes(), f'{new} is another result'
                placed.add(file)
    for file in placed:
        if file.suffix != '.npy': file.unlink()
    stored = [x for folder in {x.parent for x in ours.values()} for x in folder.glob('*.safetensors')]
    known = {path.stem for path in ours.values()}
    lost = [str(x) for x in sorted(stored) if x.name.partition('.')[0] not in known]
    assert not [before for before, after in pairs if before != after and before.exists()]
    print(f'{len(placed)} files have new names', *(f'not placed: {x}' for x in lost), sep='\n')


if __name__ == '__main__': main(*sys.argv[1:])
