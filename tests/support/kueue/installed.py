"""Kueue's kinds on a real API server, without Kueue."""

import yaml
from kubernetes import config
from support.cluster.harness import install_crd
from support.kueue.scripted import CRDS


def install_kueue(kubeconfig):
    """Install the CRDs of Workloads and ResourceFlavors, and wait until the server uses them."""
    with config.new_client_from_config(str(kubeconfig)) as api:
        for crd in yaml.safe_load_all(CRDS.read_text()):
            install_crd(api, crd)
