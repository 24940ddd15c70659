"""How Django's caches name keys so that all of them share one partition: then `set_many`, which is a transaction, works."""


def in_one_partition(key, prefix, version):
    return f"{{django}}{prefix}:{version}:{key}"
