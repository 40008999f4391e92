"""The shared map in ZooKeeper, and a ZooKeeper to keep it in. The only importer of kazoo.
Everything blocks, so the broker calls it from threads.
"""
