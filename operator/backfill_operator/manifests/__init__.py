"""The objects of one attempt, as plain dictionaries: ConfigMap, Secret, Service, driver pod. Values in, values out.

    attempt       the input of the builders          names            names and labels
    spark_conf    Spark's properties                 template         merging of pod templates
    config_map, secret, service, driver_pod

The limits for the requests of a spec are in `backfill_core.cluster_rules`.

Not allowed here: the API client, a clock, randomness, files. The same launch gives the same objects.
"""
