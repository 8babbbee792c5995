"""Sets of kernels: variables under which the libraries compute as on an older processor, written here once.

A test holds under every set. `make test KERNELS=no-avx512` runs them all under one, with
TESTS=tests/test_flow.py one file, and `python tests/kernels.py no-avx2 command ...` anything.
MKL obeys MKL_ENABLE_INSTRUCTIONS on Intel alone; on other makes its kernels for AVX-512 are not taken anyway.
The set `elsewhere` changes no kernel: the interpreter believes that it stands on another machine.
"""
import os
import sys
from pathlib import Path

KERNELS = {
    'here': {},
    'elsewhere': dict(PYTHONPATH=str(Path(__file__).parent/'elsewhere')),
    'no-avx512': dict(
        ATEN_CPU_CAPABILITY='avx2',
        ONEDNN_MAX_CPU_ISA='AVX2',
        MKL_ENABLE_INSTRUCTIONS='AVX2',
        OPENBLAS_CORETYPE='Haswell',
        FAISS_SIMD_LEVEL='AVX2',
        NPY_DISABLE_CPU_FEATURES='X86_V4 AVX512_ICL AVX512_SPR'),
    'no-avx2': dict(
        ATEN_CPU_CAPABILITY='default',
        ONEDNN_MAX_CPU_ISA='SSE41',
        MKL_CBWR='COMPATIBLE',
        OPENBLAS_CORETYPE='Nehalem',
        FAISS_SIMD_LEVEL='NONE',
        NPY_DISABLE_CPU_FEATURES='X86_V3 X86_V4 AVX512_ICL AVX512_SPR',
        GLIBC_TUNABLES='glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4'),
}


if __name__ == '__main__':
    name, *command = sys.argv[1:]
    if name not in KERNELS: sys.exit(f'{name}: no such set of kernels; there are {", ".join(KERNELS)}')
    os.execvpe(command[0], command, os.environ | KERNELS[name])
