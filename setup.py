"""Everything about the package stands in pyproject.toml; here a wheel gets what it reads at run time."""
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CARRIED = ('settings.ini', 'data_synth/*.csv')


class WithTables(build_py):
    "The modules, and a copy of the settings and tables that the repository has at its top."
    def run(self):
        super().run()
        if self.editable_mode: return
        for path in (path for pattern in CARRIED for path in Path().glob(pattern)):
            target = Path(self.build_lib)/'modit'/'carried'/path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


setup(cmdclass=dict(build_py=WithTables))
