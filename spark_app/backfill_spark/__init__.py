"""Hands on the data: the only floor that may import pyspark. Decides nothing; carries out the core's actions."""
