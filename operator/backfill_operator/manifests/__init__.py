"""The objects of one attempt, as plain dictionaries: ConfigMap, Secret, Service, driver pod. Values in, values out.

    launch        what a builder needs to know       names        what things are called
    spark_conf    Spark's properties                 resources    from container resources to heaps and cores
    template      pod templates, merged and refused  config_map, secret, service, driver_pod

Not allowed inside: the API client, a clock, chance, files. The same launch gives the same objects, so a repeated try is one.
"""
