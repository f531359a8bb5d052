"""The replay machine: PTX run on the CPU, instruction by instruction, written from the PTX ISA alone.

It imports nothing else of layoutlab, so that its testimony about where a byte went is independent of the model.

    parse          text to instructions, each with its PTX line and its source line where there is one
    registry, isa  one declaration per opcode with every qualifier it accepts, and what it does
    rules          where tensor core, TMA and TMEM find each element: the few formulas that decide every placement
    decode         instructions to blocks of numpy operations on register slots
    state, machine waves of CTAs, fragments of threads that stand at one block, the scheduler, deadlock
    asynchronous   work that an instruction only starts, mbarriers; schedules eager, lazy and random
    memory, tma    the address spaces, bounded, aligned and poisoned; tensor maps
    provenance     who wrote each byte, and which bytes each operand coordinate was read from
    run, parallel  PTX text on numpy arrays; CTAs over processes

Reading a handoff off a run, here P from shared memory:

    record = layoutlab.replay(compiled, *args, provenance=True).provenance
    read = record.reads_of("A")[0]          one tcgen05.mma: operand A as (m, k) -> location
    read.location[m, k]                     the shared byte (space "shared"), or [lane, column, bit] (space "tmem")
    read.writers[m, k]                      [event, thread] of the last write before the read
    record.events[event - 1]                (time, instruction) of that write
    record.stores_to("shared", "st.shared") each store: thread -> address, in time order
    record.snapshots[cta].shared            the shared memory as the CTA left it
"""
