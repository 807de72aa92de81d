"""The same learners on data in shards: in one process that maps them from disk, or on a dask cluster.

``shards`` is the sum over shards that batch learners see, ``local`` evaluates it in this process and ``engine`` on the
workers of a ``dask.distributed`` cluster. Nothing of dask is imported unless an engine is asked for.
"""
