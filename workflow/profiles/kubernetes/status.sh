#!/bin/sh
# status.sh JOB: what became of it, in Snakemake's words. A cluster that does not answer is asked again later; a Job
# that is no longer there has failed.
shown='{.kind} {.status.conditions[?(@.status=="True")].type}'
said=$(kubectl get "$1" --ignore-not-found -o "jsonpath=$shown") || said=Job
case " $said " in
  *' Complete '*) echo success ;;
  *' Failed '*) echo failed ;;
  ' Job '*) echo running ;;
  *) echo failed ;;
esac
