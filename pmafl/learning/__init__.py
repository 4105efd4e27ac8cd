"""Models and their split, local training, federated algorithms, evaluation."""

import os

# Waiting OpenMP threads would spin, and slow whatever runs beside them by a factor of ten or more. It only
# counts if it is set before torch is imported, which the modules here do.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from pmafl.learning import algorithms
from pmafl.learning.form import form_of
from pmafl.learning.threads import threads
from pmafl.learning.workload import Workload, workload

__all__ = ["Workload", "algorithms", "form_of", "threads", "workload"]
