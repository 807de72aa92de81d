"""The same learners on sharded data: in one process that maps the shards from disk, or on a dask cluster.

``shards`` is the sum over shards that batch learners see, ``local`` evaluates it in this process and ``engine`` on the
workers of a ``dask.distributed`` cluster. dask is imported only when an engine is requested.
"""
