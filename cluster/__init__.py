"""The shared map in ZooKeeper, and an embedded ZooKeeper. The only package that imports kazoo.
Everything blocks, so the broker calls it from threads.
"""
