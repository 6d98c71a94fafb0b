"""Parameters of the snapshot strategy; the words are in the contract, so that the CRD has them."""
