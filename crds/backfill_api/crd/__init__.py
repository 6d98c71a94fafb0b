"""The CRD and the field reference, generated from the models."""
