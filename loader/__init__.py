"""The loader: moves events from a cluster's topics into files in Hadoop, exactly once
(docs/loader.md).

    run/        a load, and the steps of each table's run in their order
    planning/   what a run reads, fixed before it reads anything
    spark/      the Spark session, the environment for executors, the job that reads topics
    landing/    a task: a slice of a partition becomes pieces of files
    decoding/   batches become rows of a table, with the help of columns/
    rewriting/  Spark jobs over existing files: counting, conversion, merging
    commit/     one manifest makes a run take effect; publishing makes it visible
    hours/      which hours are complete, and how they are closed
    ledger/     what the loader reports to the audit
    checks/     whether files are still as they were committed
    store/      the filesystem that holds all of this
    source/     the data source `penstock`: a topic as a DataFrame, without a load

The modules beside these folders are shared by them: configuration, errors, the terms table, hour
and slice, a task's report, and the manifest.
"""
