"""Hand a job to Kubernetes and print its name: `submit.py IMAGE CLAIM FOLDER GPUS MEGABYTES MINUTES SCRIPT`.

The pod mounts the claim at the folder, stands where this process stands, and has those of its variables that modit
reads, a token for Milvus among them. A Job is tried once: what a lost pod has finished is kept, and the same run
goes on from there.
"""
import json
import os
import shutil
import subprocess
import sys

CARRIED = ('PATH', 'PYTHONPATH', 'MODIT_', 'OMP_', 'MKL_', 'OPENBLAS_', 'MALLOC_')  # how their names begin
DAY = 24*60*60

image, claim, folder, gpus, megabytes, minutes, script = sys.argv[1:]
if 'your-' in f'{image} {claim}': sys.exit('put your own image, claim and folder into kubernetes/config.yaml')
if not shutil.which('kubectl'): sys.exit('kubectl is not installed here; install it, and see that it reaches a cluster')
gpu = {'nvidia.com/gpu': gpus} if int(gpus) else {}
memory = dict(memory=f'{megabytes}M')
container = dict(
    name='modit', image=image, command=['/bin/sh', script], workingDir=os.getcwd(),
    env=[dict(name=name, value=value) for name, value in os.environ.items() if name.startswith(CARRIED)],
    resources=dict(requests=dict(cpu='1') | memory | gpu, limits=memory | gpu),
    volumeMounts=[dict(name='shared', mountPath=folder)])
pod = dict(
    restartPolicy='Never', activeDeadlineSeconds=60*int(minutes), containers=[container],
    volumes=[dict(name='shared', persistentVolumeClaim=dict(claimName=claim))],
    tolerations=[dict(key=name, operator='Exists') for name in gpu])
job = dict(
    apiVersion='batch/v1', kind='Job', metadata=dict(generateName='modit-'),
    spec=dict(backoffLimit=0, ttlSecondsAfterFinished=DAY, template=dict(spec=pod)))
create = ['kubectl', 'create', '-o', 'name', '-f', '-']
sys.exit(subprocess.run(create, input=json.dumps(job), text=True).returncode)
