"""Whoever imports this has Arrow's memory from the system, and what columns do not need any more
goes back there. It must be imported before anything that makes columns.

Arrow's own allocator keeps what it was given: 38 MB after columns of 32, and 4 to 6 MB of a program
that has done nothing yet (measured). That is for programs that mostly wait. Folding takes no more
time without it; Spark's tasks, which do nothing but make columns, keep it.
"""

import pyarrow as pa

pa.set_memory_pool(pa.system_memory_pool())
