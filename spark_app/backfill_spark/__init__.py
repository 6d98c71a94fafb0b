"""The driver: the only floor that may import pyspark. Executes the actions of the core; decides nothing."""
