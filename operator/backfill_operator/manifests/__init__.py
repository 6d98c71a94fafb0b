"""The objects of one attempt, as plain dictionaries: ConfigMap, Secret, Service, driver pod. Values in, values out.

    attempt       the input of the builders          names            names and labels
    spark_conf    Spark's properties                 container_sizes  from container resources to heap and cores
    template      merging of pod templates           rules            limits for the requests of a spec
    config_map, secret, service, driver_pod

Not allowed here: the API client, a clock, randomness, files. The same launch gives the same objects.
"""
