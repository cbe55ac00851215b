# Between an agent and its processors, over a Unix socket inside one machine. Both ends are always of the same package, so this
# part carries no version. Framing: see README.md.

@0xe85a3b94d07c1f26;

using Common = import "common.capnp";
using Worker = import "worker.capnp";

struct AgentToProcessor {
  batches @0 :List(Batch);   # in the order in which the items were said
  direction @1 :UInt16;     # always 5: a message of another direction is refused

  struct Batch {
    union {
      runTask @0 :Worker.RunTask;
      objectResponse @1 :Common.ObjectResponse;
      objectInstruction @2 :Common.ObjectInstruction;
      collectGarbage @3 :CollectGarbage;
    }
  }
}

struct ProcessorToAgent {
  batches @0 :List(Batch);   # in the order in which the items were said
  direction @1 :UInt16;     # always 6: a message of another direction is refused

  struct Batch {
    union {
      processorReady @0 :ProcessorReady;
      runResult @1 :Worker.RunResult;
    }
  }
}

struct CollectGarbage {
  # Between two tasks: run the interpreter's garbage collection, and give memory that is not used back to the system.
  count @0 :UInt32;                    # number of items
  trimAboveBytes @1 :List(UInt64);     # a processor with no more resident memory than this keeps it
}

struct ProcessorReady {
  # The processor has started and waits for work.
  count @0 :UInt32;          # number of items
  pid @1 :List(UInt32);      # its process id
}
