"""This interpreter believes that it stands on another machine: another vendor's processor, another name and
another number of cores. A page whose stored output has a fact of the machine that made it fails here."""
import builtins
import io
import os
import platform

CORES = 3
CPU = 'vendor_id\t: Elsewhere\nmodel name\t: Elsewhere Cascade 3000\ncpu MHz\t\t: 3000.000\n\n'
_open = io.open


def opened(file, *how, **named):
    "In the place of `open`: /proc/cpuinfo tells of another processor."
    if str(file) != '/proc/cpuinfo': return _open(file, *how, **named)
    return io.StringIO(CPU*CORES) if 'b' not in ''.join(map(str, how)) else io.BytesIO((CPU*CORES).encode())


builtins.open = io.open = opened
os.cpu_count = lambda: CORES
os.sched_getaffinity = lambda pid: set(range(CORES))
platform.node = lambda: 'elsewhere'
platform.processor = lambda: 'Elsewhere Cascade 3000'
