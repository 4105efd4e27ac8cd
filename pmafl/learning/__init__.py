"""Models and their split, local training, federated algorithms, evaluation."""
