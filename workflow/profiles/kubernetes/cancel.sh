#!/bin/sh
# cancel.sh JOB ...: delete them and their pods, without waiting until they are gone.
exec kubectl delete --ignore-not-found --wait=false "$@"
