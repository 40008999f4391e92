"""The loader: from a cluster's topics into files in Hadoop, exactly once. Docs: docs/loader.md.

    run/        a load, and what the run of each of its tables does, in the order in which it must
    planning/   what a run reads, fixed before anything is read
    spark/      the session, what is shipped to executors, the job whose tasks read
    landing/    a task: a slice of a partition becomes pieces of files
    decoding/   batches become a table's rows, by columns/
    rewriting/  Spark's jobs over files that are there: counted, given another form, merged
    commit/     what a run did becomes true by one manifest, and visible afterwards
    hours/      which hours are complete, and what is done when one is
    ledger/     what the audit is told of it
    checks/     whether files are still what was committed
    store/      the filesystem that all of this lies in
    source/     the data source `penstock`: a topic as a DataFrame, without a load

What all of them agree on lies here: the configuration, the errors, what a table, an hour and a
slice are, a task's report, and the manifest.
"""
